"""``onnx-passes plan``: the passes that would run, and the reason for each."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from onnx_passes.cli.complete import model_or_pass
from onnx_passes.cli.interface import interface_options
from onnx_passes.cli.options import common_options, config_option


@click.command("plan", short_help="Show which passes would run, and why.")
@click.argument("words", nargs=-1, metavar="[MODEL] PASS…", shell_complete=model_or_pass)
@config_option
@interface_options
@common_options
def command(words: tuple[str, ...], config_file: str | None, as_json: bool) -> None:
    """Show the plan for a pipeline: every pass in order, with the reason why it runs.

    A MODEL before the passes is loaded, so that errors of loading are found, too.
    """
    from onnx_passes.cli.settings import settings

    names = words
    if names and (Path(names[0]).suffix in (".onnx", ".onnxtxt") or Path(names[0]).is_file()):
        from onnx_passes.graph.load import load

        load(names[0])
        names = names[1:]
    chosen = settings(config_file, names, needs_passes=True)
    made = chosen.plan()
    if as_json:
        rows = [{"depth": depth, "pass": step.text, "why": str(step.why)} for depth, step in made.walk()]
        click.echo(json.dumps({"pipeline": made.pipeline, "steps": rows}, indent=2))
        return
    from onnx_passes.report.columns import Column, pass_cell, table_lines, width_of

    rows = [[pass_cell(step.text, depth), str(step.why)] for depth, step in made.walk()]
    columns = (Column("", shorten="wrap", least=30), Column("", shorten="wrap", least=20))
    for line in table_lines(columns, rows, width_of(sys.stdout, sys.maxsize)):
        click.echo(line)
