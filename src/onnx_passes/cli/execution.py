"""One run of a pipeline on the model of a file: load, check, run, write."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onnx_passes.cli.checks import checks_of, executor_of, speed_of
from onnx_passes.cli.reporting import run_watched
from onnx_passes.cli.settings import settings

if TYPE_CHECKING:
    from onnx_passes.api import Result
    from onnx_passes.cli.choices import Choices
    from onnx_passes.cli.settings import Settings
    from onnx_passes.core.instruments import Instrument
    from onnx_passes.report.summary import RunSummary
    from onnx_passes.workers.cluster import Cluster


@dataclass(frozen=True)
class Done:
    """A run that ended well, and what it wrote."""

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
    """Load a model, run the passes, and write what came of it; workers of a ``cluster`` measure metrics."""
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


def _instruments(chosen: Settings, choices: Choices, checks: list[Instrument]) -> list[Instrument]:
    from onnx_passes.core.instruments import Limit
    from onnx_passes.debug.intermediates import Checkpoint, KeepIntermediates
    from onnx_passes.report.changes import PrintChanged
    from onnx_passes.report.failed import ShowFailedRun
    from onnx_passes.report.progress import Progress
    from onnx_passes.verify.contracts import Paranoid

    instruments: list[Instrument] = [] if choices.quiet else [ShowFailedRun()]
    if choices.limit is not None:
        instruments.append(Limit(choices.limit))
    if choices.paranoid:
        instruments.append(Paranoid())
    if choices.measure:
        instruments.append(speed_of(chosen.config, choices))
    instruments.extend(checks)
    logging = chosen.config.logging
    if folder := choices.keep_intermediates or logging.keep_intermediates:
        instruments.append(KeepIntermediates(Path(folder)))
    if logging.checkpoint:
        instruments.append(Checkpoint(Path(logging.checkpoint)))
    if choices.print_changed or logging.verbose:
        instruments.append(PrintChanged(sys.stderr))
    elif not choices.quiet and sys.stderr.isatty():
        instruments.append(Progress())
    return instruments
