"""Runs whose report or trace is wanted: both are written of runs that fail, too."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from onnx_passes.cli.files import write_text

if TYPE_CHECKING:
    import onnx_ir as ir

    from onnx_passes.api import Result
    from onnx_passes.core.instruments import Instrument
    from onnx_passes.core.plan import Plan


def run_watched(
    planned: Plan,
    model: ir.Model,
    instruments: Sequence[Instrument],
    source: str,
    *,
    report: str | None,
    trace: str | None,
) -> Result:
    """Run a plan on the model of a file, and write the trace and the report that are wanted."""
    if trace is None:
        return _recorded(planned, model, instruments, source, report)
    from onnx_passes.report.timeline import Timeline

    timeline = Timeline()
    try:
        return _recorded(planned, model, [timeline, *instruments], source, report)
    finally:
        write_text(trace, json.dumps(timeline.to_json(), default=str) + "\n")


def _recorded(
    planned: Plan, model: ir.Model, instruments: Sequence[Instrument], source: str, report: str | None
) -> Result:
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
