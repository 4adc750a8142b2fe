"""``onnx-passes bisect``: the first pass, and the first rule application in it, that makes a model bad."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onnx_passes.cli.complete import pass_names
from onnx_passes.cli.options import config_option, running_options, show
from onnx_passes.core.errors import ExitCode

if TYPE_CHECKING:
    from onnx_passes.core.config import Config
    from onnx_passes.debug.judges import Judge
    from onnx_passes.verify.metrics.metrics import MetricRange


@dataclass(frozen=True)
class Criteria:
    """Criteria for a bad model, as given on the command line."""

    inputs: tuple[str, ...]
    expect: tuple[str, ...]
    seed: int
    tolerance: str | None
    metrics: tuple[str, ...]
    command_line: str | None


@click.command("bisect", short_help="Find the first pass and rule application that makes a model bad.")
@click.argument("model", metavar="MODEL")
@click.argument("passes", nargs=-1, metavar="[PASS]…", shell_complete=pass_names)
@config_option
@click.option("--inputs", multiple=True, metavar="FILE", help="Inputs to run on (.npy, .npz, .pb); may be repeated.")
@click.option("--expect", multiple=True, metavar="FILE", help="Outputs expected for the inputs; may be repeated.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of generated inputs.")
@click.option(
    "--tolerance",
    metavar="ATOL[,RTOL]",
    help="Largest difference of results from the original [default: what the passes promise].",
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME=MIN,MAX",
    help="A model is bad if a metric leaves this range (either end may be missing); may be repeated.",
)
@click.option(
    "--command",
    "command_line",
    metavar="CMD",
    help="Command that judges the model file {}: exit code 0 is good, 125 unknown, all others bad.",
)
@running_options
def command(model: str, passes: tuple[str, ...], config_file: str | None, as_json: bool, **criteria: object) -> int:
    """Find the first bad step of the pipeline PASS… on MODEL, and the first bad rule application in it.

    By default a model is bad if its results differ from those of the original by more than the passes promise, and a
    step is bad if its pass fails. Takes a logarithmic number of runs. Exits with 1 if something is bad.
    """
    from onnx_passes.cli.settings import settings

    asked = Criteria(**criteria)  # pyright: ignore[reportArgumentType]
    chosen = settings(config_file, passes, needs_passes=True)
    judge = _judge(asked, chosen.config, Path(config_file).parent if config_file is not None else None)

    from onnx_passes.debug.bisect import bisect

    found = bisect(model, chosen.plan(), is_bad=judge)
    show(found, as_json=as_json)
    return ExitCode.VERIFICATION if found.found else ExitCode.OK


def _judge(asked: Criteria, config: Config, base: Path | None) -> Judge:
    others = {
        "--inputs": asked.inputs,
        "--expect": asked.expect,
        "--tolerance": asked.tolerance,
        "--metric": asked.metrics,
    }
    given = [name for name, value in others.items() if value]
    if asked.command_line is not None and given:
        raise click.UsageError(f"--command excludes {given[0]}.")
    if asked.metrics and asked.tolerance is not None:
        raise click.UsageError("--metric and --tolerance exclude each other.")
    from onnx_passes.cli.checks import configured_limits, executor_of, parse_tolerance
    from onnx_passes.debug.judges import ByCommand, ByMetrics, ByResults, Unanimous

    if asked.command_line is not None:
        return ByCommand(asked.command_line)
    executor = executor_of(config)
    inputs, expect = asked.inputs or config.reference.inp, asked.expect or config.reference.out
    ranges = _ranges(asked.metrics, config)
    by_metrics = ByMetrics(ranges, inputs=inputs, expect=expect, seed=asked.seed, executor=executor, base=base)
    if asked.metrics:
        return by_metrics
    default = configured_limits(config)
    by_results = ByResults(
        inputs=inputs,
        expect=expect,
        seed=asked.seed,
        limits=None if asked.tolerance is None else parse_tolerance(asked.tolerance, default),
        default=default,
        executor=executor,
    )
    return Unanimous(by_results, by_metrics) if ranges else by_results


def _ranges(conditions: tuple[str, ...], config: Config) -> dict[str, MetricRange]:
    """Parse the ranges of the command line or, without any, those of the configuration."""
    from onnx_passes.verify.metrics.metrics import parse_condition, parse_ranges

    if not conditions:
        return parse_ranges(config.verify.metrics) if config.verify is not None else {}
    ranges: dict[str, MetricRange] = {}
    for condition in conditions:
        name, limits = parse_condition(condition)
        if limits is None:
            raise click.UsageError(f"--metric {condition} accepts everything: write {name}=MIN,MAX.")
        ranges[name] = limits
    return ranges
