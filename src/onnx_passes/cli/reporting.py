"""Runs whose report is wanted: it is written of those that fail, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    import onnx_ir as ir

    from onnx_passes.api import Result
    from onnx_passes.core.instruments import Instrument
    from onnx_passes.core.plan import Plan


def run_recorded(
    planned: Plan, model: ir.Model, instruments: Sequence[Instrument], report: str | None, source: str
) -> Result:
    """Run a plan on the model of a file, and write the report if one is wanted."""
    from onnx_passes.api import run_plan

    if report is None:
        return run_plan(planned, model, instruments)
    from onnx_passes.graph.load import load
    from onnx_passes.history.recording import Recording
    from onnx_passes.report.html import write_report
    from onnx_passes.report.run import run_data

    recording = Recording()
    original = None if source == "-" else lambda: load(source)
    try:
        result = run_plan(planned, model, instruments, recording)
    except Exception:
        if recording.run is not None:
            write_report(run_data(recording, None, original=original), report)
            click.echo(f"report: {report}", err=True)
        raise
    result.original = original
    result.report(report)
    return result
