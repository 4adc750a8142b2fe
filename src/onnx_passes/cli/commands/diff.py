"""``onnx-passes diff``: structural differences of two models, independent of names."""

from __future__ import annotations

import json
import sys

import click

from onnx_passes.cli.options import debug_option, json_option


@click.command("diff", short_help="Show how two models differ.")
@click.argument("before")
@click.argument("after")
@click.option("--text", is_flag=True, help="Compare the printed graphs line by line.")
@json_option
@debug_option
def command(before: str, after: str, text: bool, as_json: bool) -> int:
    """Show which nodes, constants and interfaces differ between BEFORE and AFTER.

    Nodes are aligned by what they compute, not by name. Exits with 1 if the models differ.
    """
    from onnx_passes.graph.diff import diff, text_diff
    from onnx_passes.graph.load import load

    old, new = load(before), load(after)
    difference = diff(old, new)
    if as_json:
        click.echo(json.dumps(difference.to_json(), indent=2, default=str))
    elif difference.is_empty and not text:
        click.echo("the models are structurally equal")
    else:
        _show(text_diff(old, new, before, after) if text else difference.to_text(), unified=text)
    return 0 if difference.is_empty else 1


def _show(changes: str, *, unified: bool) -> None:
    """Print changes, in colour if the terminal supports it."""
    from onnx_passes.report.coloured import coloured, coloured_console, coloured_list

    console = coloured_console(sys.stdout) if changes else None
    if console is None:
        click.echo(changes, nl=False)
    else:
        text = coloured(changes, lambda sign, name: "") if unified else coloured_list(changes)
        console.print(text, soft_wrap=True, end="")
