"""``onnx-passes run``: apply passes to a model; also what runs when no command is named."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onnx_passes.cli.checks import checks_of
from onnx_passes.cli.complete import pass_names
from onnx_passes.cli.files import require_writable, write_text
from onnx_passes.cli.interface import interface_options
from onnx_passes.cli.options import config_option, running_options
from onnx_passes.cli.reporting import run_watched
from onnx_passes.core.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from onnx_passes.api import Result
    from onnx_passes.cli.settings import Settings
    from onnx_passes.core.instruments import Instrument


@dataclass(frozen=True)
class Choices:
    """What the command line asks for besides the passes."""

    output: str | None
    state: str | None
    record: str | None
    report: str | None
    trace: str | None
    in_place: bool
    external: bool | None
    share_data: bool
    print_changed: bool
    keep_intermediates: str | None
    time: bool
    limit: int | None
    paranoid: bool
    verify: str | None
    tolerance: str | None
    seed: int
    samples: int | None
    special: bool | None
    inputs: tuple[str, ...]
    expect: tuple[str, ...]
    metrics: tuple[str, ...]
    dataset: tuple[str, ...]
    batch: int | None
    structure: tuple[str, ...]
    dump: str | None
    dump_limit: str | None
    require: str | None
    memory: str | None
    repro: str
    quiet: bool
    as_json: bool


@click.command("run", short_help="Apply passes to a model (the default).")
@click.argument("model", metavar="MODEL")
@click.argument("passes", nargs=-1, metavar="[PASS]…", shell_complete=pass_names)
@config_option
@interface_options
@click.option("-o", "--output", metavar="FILE", help="Where the model goes; without it, to standard output as text.")
@click.option("--record", metavar="FILE", help="Write the record of the run (JSON) to a file.")
@click.option("--report", metavar="FILE", help="Write a page that shows every rewrite; as .json, its data.")
@click.option("--trace", metavar="FILE", help="Write when what was done, for Perfetto or Chrome (JSON).")
@click.option("-s", "--state", metavar="FILE", help="State of version 0.4, which is not needed: never read or written.")
@click.option("--in-place", is_flag=True, help="Write the result over the input file.")
@click.option(
    "--external/--no-external", default=None, help="Keep weights in a file of their own [default: as in the input]."
)
@click.option("--share-data", is_flag=True, help="Leave weights in the data file of the input, which must stay there.")
@click.option("--print-changed", is_flag=True, help="Show the difference that every pass made.")
@click.option("--keep-intermediates", metavar="DIR", help="Save the model after every pass that changed it.")
@click.option("--time", is_flag=True, help="Show what every rule tried, applied and cost.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="Stop after N rule applications.")
@click.option("--paranoid", is_flag=True, help="Check the contract of every pass, and the whole model after it.")
@click.option("--verify", type=click.Choice(["each", "final", "off"]), help="When to run and compare [default: each].")
@click.option(
    "--tolerance", metavar="ATOL[,RTOL]", help="How far results may be from the original [default: 1e-5,1e-4]."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of generated inputs.")
@click.option(
    "--samples",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many inputs to generate [default: 3 or more].",
)
@click.option(
    "--special/--no-special",
    default=None,
    help="Try NaN, infinities, the largest and smallest numbers, too [default: on small models].",
)
@click.option(
    "--inputs", multiple=True, metavar="FILE", help="Inputs to verify with (.npy, .npz, .pb); may be repeated."
)
@click.option(
    "--expect",
    multiple=True,
    metavar="FILE",
    help="Outputs expected for the inputs or, with --metric, class labels of the dataset; may be repeated.",
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME[=MIN,MAX]",
    help="Measure a metric (accuracy, psnr, …, or your module:function) and require a range, also as NAME>=MIN or "
    "NAME<=MAX; may be repeated.",
)
@click.option(
    "--dataset", multiple=True, metavar="FILE", help="Inputs to measure on [default: --inputs]; may be repeated."
)
@click.option(
    "--batch", type=click.IntRange(min=1), metavar="N", help="Rows of the dataset to run at a time [default: 64]."
)
@click.option(
    "--structure",
    multiple=True,
    metavar="PROPERTY",
    help="Require a property of the graph, as 'acyclic' or 'at-most(Conv, 3)'; may be repeated.",
)
@click.option(
    "--dump", metavar="DIR", help="Save all values of the first sample after every pass that changed the model."
)
@click.option("--dump-limit", metavar="SIZE", help="How much --dump may save in all [default: 1GiB].")
@click.option(
    "--require", metavar="LEVEL", help="Fail unless every step has evidence of this level: sampled, tolerance, …"
)
@click.option("--memory", metavar="SIZE", help="How much local checks may keep in memory [default: 256MiB].")
@click.option("--repro", default="onnx-passes-repro", metavar="DIR", show_default=True, help="Where a failure is kept.")
@click.option("-q", "--quiet", is_flag=True, help="Show errors only.")
@running_options
def command(model: str, passes: tuple[str, ...], config_file: str | None, **choices: object) -> None:
    """Apply passes to MODEL, a file or '-' for standard input.

    PASS… is a pipeline: names of passes and groups, as words or as text such as
    'cleanup, fixpoint{max=20}(algebraic, reorder)'. Without passes the model is loaded and written again.
    """
    _run(model, passes, config_file, Choices(**choices))  # pyright: ignore[reportArgumentType]


def _run(source: str, passes: tuple[str, ...], config_file: str | None, choices: Choices) -> None:
    target = _target(source, choices)
    _refuse_missing(source)
    for beside in (choices.record, choices.report, choices.trace):
        _refuse_same_as_model(beside, (source, target))
    from onnx_passes.cli.settings import settings
    from onnx_passes.graph.data_layout import require_shareable
    from onnx_passes.graph.load import load
    from onnx_passes.graph.origin import origin
    from onnx_passes.graph.save import save

    _ignore_state(choices)
    chosen = settings(config_file, passes, quiet=choices.quiet)
    planned = chosen.plan()
    for path in (choices.output, choices.record, choices.report, choices.trace):
        require_writable(path)
    model = load(source)
    if choices.share_data:
        require_shareable(model, Path(target).parent)
    loaded_from = origin(model)
    if loaded_from is not None and not choices.quiet:
        for repair in loaded_from.repairs:
            click.echo(f"repaired: {repair}", err=True)
    checks = checks_of(chosen.config, choices, planned, model, config_file, source)
    instruments = _instruments(chosen, choices, checks)
    result = run_watched(planned, model, instruments, source, report=choices.report, trace=choices.trace)
    if not (choices.as_json and target == "-"):
        report = save(result.model, target, external="shared" if choices.share_data else choices.external)
        for note in report.notes:
            click.echo(f"note: {note}", err=True)
    _report(result, choices)


def _ignore_state(choices: Choices) -> None:
    """Say that a state is of no use here; version 0.4 kept it as a pickle, which could run anything."""
    if choices.state is None:
        return
    if not Path(choices.state).exists():
        raise UsageError(
            "there is no such state", where=choices.state, hint="the record of a run is written by --record FILE"
        )
    if not choices.quiet:
        click.echo(
            f"legacy: {choices.state} is not read: runs need no state; --record FILE writes the record of one", err=True
        )


def _target(source: str, choices: Choices) -> str:
    if choices.in_place:
        if choices.output is not None or source == "-":
            raise click.UsageError("--in-place goes with an input file and without --output.")
        return source
    target = choices.output or "-"
    if choices.share_data and (target == "-" or choices.external is not None):
        raise click.UsageError("--share-data goes with --output or --in-place and without --external.")
    if "-" not in (target, source) and _is_same_file(Path(target), Path(source)):
        raise UsageError("this is the input file", where=target, hint="use --in-place to overwrite it")
    return target


def _refuse_same_as_model(file: str | None, models: tuple[str, ...]) -> None:
    if file is not None and any(Path(file).resolve() == Path(model).resolve() for model in models):
        raise UsageError("this is the model", where=file, hint="give the record or report a file of its own")


def _is_same_file(a: Path, b: Path) -> bool:
    return a.is_file() and b.is_file() and a.samefile(b)


def _refuse_missing(source: str) -> None:
    """Tell a mistyped command from a missing file: both arrive here as the model."""
    from onnx_passes.cli.main import COMMANDS

    if source != "-" and not Path(source).exists() and not Path(source).suffix:
        hint = did_you_mean(source, COMMANDS)
        raise UsageError(
            f"there is no file or command '{source}'",
            hint=hint or "the first word is a model file or a command; see 'onnx-passes --help'",
        )


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


def _report(result: Result, choices: Choices) -> None:
    record = result.record
    if choices.record is not None:
        write_text(choices.record, json.dumps(record.to_json(), indent=2, default=str) + "\n")
    if choices.as_json:
        click.echo(json.dumps(record.to_json(), indent=2, default=str))
    if not choices.quiet:
        from onnx_passes.report.tables import show_run

        show_run(record, rules=choices.time)
