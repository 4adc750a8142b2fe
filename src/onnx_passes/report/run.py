"""The data of the report of a run, with what is found out about its models."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from onnx_passes.history.recording import Recording
from onnx_passes.report.data import report_data


def run_data(recording: Recording, model: ir.Model | None, *, title: str = "") -> dict[str, Any]:
    """Return the data of a run that ended with a model, or failed without one."""
    return report_data(recording, title=title)
