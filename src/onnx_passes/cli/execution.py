"""One run of a pipeline on the model of a file: load, check, run, write.

Reports and traces are written even if the run fails.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onnx_passes.cli.checks import checks_of, executor_of, speed_of
from onnx_passes.cli.files import write_text
from onnx_passes.cli.settings import settings
from onnx_passes.core.instruments import Limit

if TYPE_CHECKING:
    import onnx_ir as ir

    from onnx_passes.api import Result
    from onnx_passes.cli.choices import Choices
    from onnx_passes.cli.settings import RunSettings
    from onnx_passes.core.config import Logging
    from onnx_passes.core.instruments import Instrument
    from onnx_passes.core.plan import Plan
    from onnx_passes.report.summary import RunSummary
    from onnx_passes.workers.cluster import Cluster


def run_watched(
    planned: Plan,
    model: ir.Model,
    instruments: Sequence[Instrument],
    source: str,
    *,
    report: str | None,
    trace: str | None,
) -> Result:
    """Run a plan on the model of a file, and write the requested trace and report."""
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


@dataclass(frozen=True)
class Done:
    """Successful run, and the files that it wrote."""

    result: Result
    summary: RunSummary
    notes: tuple[str, ...] = ()


def execute(
    source: str,
    target: str,
    passes: tuple[str, ...],
    config_file: str | None,
    choices: Choices,
    cluster: Cluster | None = None,
) -> Done:
    """Load a model, run the passes, and write the results; workers of a ``cluster`` measure metrics."""
    chosen = settings(config_file, passes, quiet=choices.quiet)
    planned = chosen.plan()
    from onnx_passes.graph.copy import copy_model
    from onnx_passes.graph.data_layout import require_shareable
    from onnx_passes.graph.load import load
    from onnx_passes.graph.origin import origin
    from onnx_passes.graph.save import save
    from onnx_passes.report.summary import RunSummary
    from onnx_passes.verify.run.loadable import Writable, as_writable

    model = load(source)
    kept = copy_model(model) if source == "-" else None
    if choices.share_data:
        require_shareable(model, Path(target).parent)
    loaded_from = origin(model)
    if loaded_from is not None and not choices.quiet:
        for repair in loaded_from.repairs:
            click.echo(f"repaired: {repair}", err=True)
    size = None if source == "-" else Path(source).stat().st_size
    checks = checks_of(chosen.config, choices, planned, model, config_file, source, cluster)
    instruments = _instruments(chosen, choices, checks)
    result = run_watched(planned, model, instruments, source, report=choices.report, trace=choices.trace)
    if choices.as_json and target == "-":
        return Done(result, RunSummary.of(result.record))
    executor = executor_of(chosen.config)
    original = partial(load, source) if kept is None else lambda: kept
    written = as_writable(result.model, original, executor) if result.modified else Writable(result.model)
    saved = save(written.model, target, external="shared" if choices.share_data else choices.external)
    if size is not None and loaded_from is not None and loaded_from.external:
        size += result.record.before.bytes
    stored = None if size is None or saved.path is None else (size, saved.nbytes)
    return Done(result, RunSummary.of(result.record, stored), (*written.notes, *saved.notes))


def _instruments(chosen: RunSettings, choices: Choices, checks: list[Instrument]) -> list[Instrument]:
    instruments: list[Instrument] = []
    if not choices.quiet:
        from onnx_passes.report.failed import ShowFailedRun

        instruments.append(ShowFailedRun())
    if choices.limit is not None:
        instruments.append(Limit(choices.limit))
    if choices.paranoid:
        from onnx_passes.check.contracts import Paranoid

        instruments.append(Paranoid())
    if choices.measure:
        instruments.append(speed_of(chosen.config, choices))
    instruments.extend(checks)
    instruments.extend(_showing(choices, chosen.config.logging))
    return instruments


def _showing(choices: Choices, logging: Logging) -> Iterator[Instrument]:
    """Yield the instruments that keep or show the model between the passes."""
    if folder := choices.keep_intermediates or logging.keep_intermediates:
        from onnx_passes.debug.intermediates import KeepIntermediates

        yield KeepIntermediates(Path(folder))
    if logging.checkpoint:
        from onnx_passes.debug.intermediates import Checkpoint

        yield Checkpoint(Path(logging.checkpoint))
    if choices.print_changed or logging.verbose:
        from onnx_passes.report.changes import PrintChanged

        yield PrintChanged(sys.stderr)
    elif not choices.quiet and sys.stderr.isatty():
        from onnx_passes.report.progress import Progress

        yield Progress()
