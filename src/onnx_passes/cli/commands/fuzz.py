"""``onnx-passes fuzz``: try rules on models made from their own patterns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onnx_passes.cli.complete import pass_names
from onnx_passes.cli.options import running_options
from onnx_passes.core.errors import ExitCode

if TYPE_CHECKING:
    from onnx_passes.testing.fuzz import FuzzReport


@click.command("fuzz", short_help="Try rules on models made from their own patterns.")
@click.argument("rules", nargs=-1, required=True, metavar="RULE…", shell_complete=pass_names)
@click.option("--cases", type=click.IntRange(min=1), default=60, show_default=True, help="Models to try for each rule.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of all choices.")
@click.option("--corpus", metavar="DIR", help="Folder of models that failed: tried first, and new ones are added.")
@running_options
def command(rules: tuple[str, ...], cases: int, seed: int, corpus: str | None, as_json: bool) -> int:
    """Fuzz RULE…, names of passes or groups that are made of rules.

    Models are generated from the pattern of each rule, run in ONNX Runtime before and after it was applied, and
    compared. The smallest model that shows a failure is printed. Exits with 1 if anything was found, or if a rule
    could hardly be made to match.
    """
    from onnx_passes.testing.fuzz import fuzz_each

    folder = None if corpus is None else Path(corpus)
    reports: list[FuzzReport] = []
    for rule in rules:
        for report in fuzz_each(rule, cases, seed, corpus=folder):
            reports.append(report)
            if not as_json:
                click.echo(report.describe())
    if as_json:
        click.echo(json.dumps([report.to_json() for report in reports], indent=2))
    return ExitCode.OK if all(report.ok for report in reports) else ExitCode.VERIFICATION
