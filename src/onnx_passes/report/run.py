"""The data of the report of a run, with the findings about its models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir as ir

from onnx_passes.history.recording import Recording
from onnx_passes.report.data import report_data
from onnx_passes.report.findings import find_out


def run_data(
    recording: Recording,
    model: ir.Model | None,
    *,
    title: str = "",
    original: Callable[[], ir.Model] | None = None,
) -> dict[str, Any]:
    """Return the data of a run that ended with a model, or failed without one.

    ``original`` is where the model that it began with can be had again.
    """
    findings = find_out(model, None if original is None else original())
    return report_data(recording, findings, title=title)
