"""``onnx-passes fuzz``: run rules on models generated from their patterns, and all passes on random models."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onnx_passes.cli.clusters import cluster_options
from onnx_passes.cli.complete import pass_names
from onnx_passes.cli.options import imported, running_options
from onnx_passes.core.errors import ExitCode

if TYPE_CHECKING:
    from onnx_passes.testing.fuzz import FuzzReport


@dataclass(frozen=True)
class FuzzOptions:
    """Options of the command."""

    cases: int
    seed: int
    seeds: int | None
    minutes: float | None
    every: bool
    models: str | None
    corpus: str | None
    jobs: int
    scheduler: str | None
    store: str | None
    as_json: bool

    @property
    def is_campaign(self) -> bool:
        """Return whether the options ask for a campaign instead of a single run of a few rules."""
        asked = (self.seeds, self.minutes, self.scheduler)
        return self.every or self.models is not None or self.jobs != 1 or any(option is not None for option in asked)


@click.command("fuzz", short_help="Test rules on models generated from their patterns.")
@click.argument("rules", nargs=-1, metavar="RULE…", shell_complete=pass_names)
@click.option("--all", "every", is_flag=True, help="Test every registered rule.")
@click.option(
    "--models",
    type=click.Choice(["all", "float", "quantized"]),
    help="Test random pipelines of all passes on random models.",
)
@click.option(
    "--cases", type=click.IntRange(min=1), default=60, show_default=True, help="Models for each rule or family."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of all choices.")
@click.option("--seeds", type=click.IntRange(min=1), metavar="N", help="Test all rules from N seeds.")
@click.option("--minutes", type=click.FloatRange(min=0), metavar="M", help="Continue with further seeds for M minutes.")
@click.option("--corpus", metavar="DIR", help="Folder of models that failed: they run first, and new ones are added.")
@cluster_options
@running_options
@click.pass_context
def command(context: click.Context, rules: tuple[str, ...], **options: object) -> int:
    """Fuzz RULE…, names of passes or groups that are made of rules, or one rule as pass/rule.

    Models are generated from the pattern of each rule, run in ONNX Runtime before and after the rule, and compared. The
    smallest model that shows a failure is printed. Exits with 1 if anything was found, or if a rule matched too few
    models.

    With --models, random models, float or quantized, with loops, branches and functions, go through random pipelines of
    all passes, groups and options. ONNX Runtime and onnx's reference evaluator judge the results by what the passes
    promise. Failures are reduced to few nodes and passes, and attributed to a rule.

    --seeds, --minutes, --all, --models, --jobs and --scheduler run a campaign: all rules from one seed, then from the
    next. Failures that differ in names and values only are one finding, and a table sums up. The corpus holds each
    finding with the command that reproduces it, and a journal: the same command again continues the campaign.
    """
    choices = FuzzOptions(**options)  # pyright: ignore[reportArgumentType]
    if [bool(rules), choices.every, choices.models is not None].count(True) != 1:
        raise click.UsageError("Give RULE…, --all or --models.")
    if choices.is_campaign:
        from onnx_passes.cli.campaigns import run_campaign

        return run_campaign(rules, imported(context), choices)
    return _try_once(rules, choices)


def _try_once(rules: tuple[str, ...], choices: FuzzOptions) -> int:
    from onnx_passes.testing.fuzz import fuzz_each

    folder = None if choices.corpus is None else Path(choices.corpus)
    reports: list[FuzzReport] = []
    for rule in rules:
        for report in fuzz_each(rule, choices.cases, choices.seed, corpus=folder):
            reports.append(report)
            if not choices.as_json:
                click.echo(report.describe())
    if choices.as_json:
        click.echo(json.dumps([report.to_json() for report in reports], indent=2))
    return ExitCode.OK if all(report.ok for report in reports) else ExitCode.VERIFICATION
