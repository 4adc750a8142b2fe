"""The report of two models: what is in one and not in the other."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir

from onnx_passes.graph.load import Source, load
from onnx_passes.graph.origin import origin
from onnx_passes.history.comparison import compare
from onnx_passes.report.data import report_data
from onnx_passes.report.findings import find_out
from onnx_passes.report.html import write_report


def report_differences(before: Source, after: Source, target: str | Path, *, title: str = "") -> Path:
    """Write a page that shows how two models differ, whatever their nodes are called; as .json, its data."""
    old, new = load(before), load(after)
    text = title or f"{_name(old)} → {_name(new)}"
    recording = compare(old, new, text)
    return write_report(report_data(recording, find_out(new, old), title=text, kind="comparison"), target)


def _name(model: ir.Model) -> str:
    source = origin(model)
    return source.path.name if source is not None and source.path is not None else model.graph.name or "model"
