"""``onnx-passes why``: where a node of the result came from, or where a node went."""

from __future__ import annotations

import click

from onnx_passes.cli.complete import pass_names
from onnx_passes.cli.interface import interface_options
from onnx_passes.cli.options import config_option, running_options, show


@click.command("why", short_help="Tell where a node of the result came from, or where a node went.")
@click.argument("model", metavar="MODEL")
@click.argument("node", metavar="NODE")
@click.argument("passes", nargs=-1, metavar="[PASS]…", shell_complete=pass_names)
@config_option
@interface_options
@running_options
def command(model: str, node: str, passes: tuple[str, ...], config_file: str | None, as_json: bool) -> None:
    """Run the pipeline PASS… on MODEL, unverified, and tell the story of NODE.

    NODE is a node or a value, of the result or of any step: which rule applications and passes it came from and, if
    it is gone, which one removed it and what replaced it.
    """
    from onnx_passes.cli.settings import settings

    chosen = settings(config_file, passes, needs_passes=True)

    from onnx_passes.history.why import why

    story = why(model, node, chosen.plan())
    show(story, as_json=as_json)
