"""``onnx-passes reduce``: reduce a model to the smallest one that still fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from onnx_passes.cli.complete import pass_names
from onnx_passes.cli.options import config_option, running_options
from onnx_passes.core.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from onnx_passes.check.blame.reproducer import Reproducer
    from onnx_passes.check.verification import Limits
    from onnx_passes.cli.settings import RunSettings
    from onnx_passes.core.plan import Plan
    from onnx_passes.debug.reduce.reducer import Reduction


@click.command("reduce", short_help="Make a failing model as small as possible.")
@click.argument("model", metavar="MODEL")
@click.argument("passes", nargs=-1, metavar="[PASS]…", shell_complete=pass_names)
@config_option
@click.option("--inputs", multiple=True, metavar="FILE", help="Inputs to run on (.npy, .npz, .pb); may be repeated.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of generated inputs.")
@click.option(
    "--tolerance", metavar="ATOL[,RTOL]", help="Largest difference of results from the original [default: 1e-5,1e-4]."
)
@click.option("--command", "shell", metavar="CMD", help="Command that fails on the model file {}.")
@click.option(
    "-o",
    "--output",
    default="onnx-passes-reduced",
    metavar="FILE|DIR",
    show_default=True,
    help="Folder for the result.",
)
@click.option("--most-seconds", type=click.FloatRange(min=0), default=300, show_default=True, help="Time limit.")
@running_options
def command(
    model: str,
    passes: tuple[str, ...],
    config_file: str | None,
    inputs: tuple[str, ...],
    seed: int,
    tolerance: str | None,
    shell: str | None,
    output: str,
    most_seconds: float,
    as_json: bool,
) -> int:
    """Reduce MODEL to the fewest nodes and the simplest data on which PASS… still fail in the same way.

    MODEL is a model file or the folder of a reproducer. The reduced model goes to standard output as ONNX text, and
    with its inputs into a folder for 'repro run'.
    """
    from onnx_passes.check.blame.reproducer import read_reproducer
    from onnx_passes.cli.settings import settings
    from onnx_passes.debug.reduce.interesting import fails_by_command, usable_samples
    from onnx_passes.debug.reduce.reducer import reduce as reduce_model
    from onnx_passes.debug.reduce.task import reduce
    from onnx_passes.graph.load import load

    chosen = settings(config_file, passes)
    _refuse_unclear(shell, chosen, model)
    _refuse_unwritable(output)
    kept = read_reproducer(Path(model)) if Path(model).is_dir() else None
    limits = _limits(tolerance, chosen, kept)
    planned = None if shell is not None else _planned(chosen, kept)
    start = kept.model if kept is not None else load(model)
    data = inputs or (kept.samples if kept is not None else ()) or chosen.config.reference.inp
    if planned is None:
        samples = usable_samples(start, data, seed=seed)
        reduction = reduce_model(start, samples, fails_by_command(shell or ""), most_seconds=most_seconds)
        report: dict[str, Any] = {"command": shell}
    else:
        failure = reduce(start, planned, inputs=data, seed=seed, limits=limits, most_seconds=most_seconds)
        reduction = failure.reduction
        found = getattr(failure.error, "failure", None)
        report = {"difference": str(failure.error)} if found is None else found.to_json()
        report = {"pipeline": failure.pipeline, "symptom": str(failure.symptom), **report}
    place = _keep(output, reduction, report, kept, seed, limits)
    _show(reduction, report, place, as_json=as_json)
    return ExitCode.OK


def _refuse_unclear(shell: str | None, chosen: RunSettings, model: str) -> None:
    if shell is not None and chosen.pipeline:
        raise click.UsageError("Give passes or --command, not both.")
    if shell is None and not chosen.pipeline and not Path(model).is_dir():
        raise click.UsageError("Nothing to run: give passes, --command, or the folder of a reproducer.")


def _refuse_unwritable(output: str) -> None:
    from onnx_passes.cli.files import require_writable
    from onnx_passes.graph.load import FORMATS

    if Path(output).suffix in FORMATS:
        require_writable(output)
    elif not Path(output).parent.is_dir():
        raise UsageError("the folder does not exist", where=str(Path(output).parent), hint="create it first")


def _limits(tolerance: str | None, chosen: RunSettings, kept: Reproducer | None) -> Limits:
    from onnx_passes.cli.checks import configured_limits, parse_tolerance
    from onnx_passes.verify.comparison.evidence import Limits

    found = None if kept is None else kept.tolerance
    base = configured_limits(chosen.config) if found is None else Limits(*found)
    return parse_tolerance(tolerance, base)


def _planned(chosen: RunSettings, kept: Reproducer | None) -> Plan:
    from onnx_passes.debug.repro import planned_again

    if chosen.pipeline or kept is None:
        return chosen.plan()
    return planned_again(kept)


def _keep(
    output: str, reduction: Reduction, report: dict[str, Any], kept: Reproducer | None, seed: int, limits: Limits
) -> Path:
    from onnx_passes.check.blame.reproducer import sources, write_reproducer
    from onnx_passes.graph.load import FORMATS
    from onnx_passes.graph.save import save

    place = Path(output)
    if place.suffix in FORMATS:
        save(reduction.model, place)
        return place
    pipeline = str(report.get("pipeline", ""))
    return write_reproducer(
        place,
        reduction.model,
        pipeline,
        reduction.samples,
        {**report, "reduced": _numbers(reduction)},
        imports=sources(pipeline) or (kept.imports if kept is not None else ()),
        seed=seed,
        tolerance=limits.pair,
    )


def _numbers(reduction: Reduction) -> dict[str, Any]:
    return {
        "nodes": [reduction.nodes_before, reduction.nodes_after],
        "tests": reduction.tests,
        "seconds": round(reduction.seconds, 3),
    }


def _show(reduction: Reduction, report: dict[str, Any], place: Path, *, as_json: bool) -> None:
    from io import StringIO

    from onnx_passes.graph.save import save

    text = StringIO()
    save(reduction.model, text)
    if as_json:
        found = {**_numbers(reduction), **report, "kept": str(place), "model": text.getvalue()}
        click.echo(json.dumps(found, indent=2, default=str))
        return
    click.echo(text.getvalue().rstrip())
    what = report.get("symptom") or f"the command fails: {report['command']}"
    click.echo(f"{reduction}\nstill: {what}\nkept in {place}", err=True)
