"""Campaigns of ``onnx-passes fuzz``: print findings as they occur, and a table at the end or on an interrupt."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onnx_passes.cli.clusters import cluster_asked
from onnx_passes.cli.failures import INTERRUPTED, TERMINATED
from onnx_passes.cli.signals import Terminated
from onnx_passes.core.errors import ExitCode

if TYPE_CHECKING:
    from onnx_passes.cli.commands.fuzz import FuzzOptions
    from onnx_passes.testing.fuzz.campaign import Campaign

_TASKS = "onnx_passes.testing.fuzz.tasks"


def run_campaign(rules: tuple[str, ...], imports: tuple[str, ...], choices: FuzzOptions) -> int:
    """Run rules from many seeds until all are done, the time is over or an interrupt, and print the findings."""
    from onnx_passes.testing.fuzz.campaign import Campaign
    from onnx_passes.testing.fuzz.draws import require_hypothesis
    from onnx_passes.testing.fuzz.tasks import CampaignPlan
    from onnx_passes.testing.fuzz.whole.models import families_named
    from onnx_passes.verify.run.resources import current_resources

    require_hypothesis()
    models = families_named(choices.models)
    plan = CampaignPlan(rules, imports, choices.cases, resources=current_resources(), models=models)
    campaign = Campaign(plan, None if choices.corpus is None else Path(choices.corpus))
    stopped = None
    try:
        with cluster_asked(choices.jobs, choices.scheduler, choices.store, preload=[_TASKS]) as cluster:
            seconds = None if choices.minutes is None else 60 * choices.minutes
            for finding in campaign.run(_seeds(choices), cluster=cluster, seconds=seconds):
                if not choices.as_json:
                    click.echo(finding.describe() + "\n")
    except KeyboardInterrupt:
        stopped = INTERRUPTED
    except Terminated:
        stopped = TERMINATED
    if choices.as_json:
        click.echo(json.dumps({"stopped": stopped is not None, **campaign.to_json()}, indent=2))
    else:
        _show(campaign, stopped=stopped is not None)
    if stopped is not None:
        return stopped
    return ExitCode.OK if campaign.ok else ExitCode.VERIFICATION


def _seeds(choices: FuzzOptions) -> range | itertools.count[int]:
    if choices.seeds is None and choices.minutes is not None:
        return itertools.count(choices.seed)
    return range(choices.seed, choices.seed + (choices.seeds or 1))


def _show(campaign: Campaign, *, stopped: bool) -> None:
    from rich.console import Console

    from onnx_passes.report.columns import Column, width_of
    from onnx_passes.report.tables import fitted_table

    columns = [
        Column("rule", shorten="front", least=30),
        Column("kind"),
        Column("met", right=True),
        Column("first seed", right=True),
        Column("file", shorten="front", least=30),
    ]
    rows = [
        ((met.rule, met.noted.kind, str(met.count), str(met.first_seed), campaign.file_of(met)), "")
        for met in campaign.findings()
    ]
    if rows:
        width = width_of(sys.stdout, 200)
        Console(highlight=False, width=width).print(fitted_table(columns, rows, width))
    for rule in campaign.dead:
        click.echo(f"'{rule}' matched too few models to judge it")
    for where, why in campaign.failures.items():
        click.echo(f"{where} could not be tried: {why}")
    click.echo(("stopped early; " if stopped else "") + campaign.summary())
