"""The report of the differences of two models."""

from __future__ import annotations

from pathlib import Path

from onnx_passes.graph.load import Source, load
from onnx_passes.graph.origin import title_of
from onnx_passes.history.comparison import compare
from onnx_passes.report.data import report_data
from onnx_passes.report.findings import find_out
from onnx_passes.report.html import write_report


def report_differences(before: Source, after: Source, target: str | Path, *, title: str = "") -> Path:
    """Write a page of the differences of two models, regardless of node names; as .json, its data."""
    old, new = load(before), load(after)
    text = title or f"{title_of(old)} → {title_of(new)}"
    recording = compare(old, new, text)
    return write_report(report_data(recording, find_out(new, old), title=text, kind="comparison"), target)
