"""``onnx-passes report``: a page with the differences of two models."""

from __future__ import annotations

from pathlib import Path

import click

from onnx_passes.cli.files import require_writable
from onnx_passes.cli.options import debug_option
from onnx_passes.core.errors import UsageError


@click.command("report", short_help="Write a page that shows how two models differ.")
@click.argument("before")
@click.argument("after")
@click.option(
    "-o", "--output", metavar="FILE", help="File for the page, or as .json for its data [default: next to AFTER]."
)
@debug_option
def command(before: str, after: str, output: str | None) -> None:
    """Write a page with the nodes and values that differ between BEFORE and AFTER, shown in the graph.

    Nodes are aligned by what they compute, not by name. 'onnx-passes run … --report FILE' writes the page of a run,
    with every step and rewrite.
    """
    target = output or _beside(after)
    if any(Path(target).resolve() == Path(model).resolve() for model in (before, after)):
        raise UsageError("the page would overwrite a model", where=target, hint="give the page a file of its own")
    require_writable(target)
    from onnx_passes.report.compare import report_differences

    click.echo(report_differences(before, after, target))


def _beside(model: str) -> str:
    if model == "-":
        raise click.UsageError("A model from standard input needs --output.")
    return str(Path(model).with_suffix(".report.html"))
