"""``onnx-passes why``: the origin of a node, or the rewrite that removed it."""

from __future__ import annotations

import click

from onnx_passes.cli.complete import pass_names
from onnx_passes.cli.interface import interface_options
from onnx_passes.cli.options import config_option, running_options, show


@click.command("why", short_help="Show the origin of a node, or what removed it.")
@click.argument("model", metavar="MODEL")
@click.argument("node", metavar="NODE")
@click.argument("passes", nargs=-1, metavar="[PASS]…", shell_complete=pass_names)
@config_option
@interface_options
@running_options
def command(model: str, node: str, passes: tuple[str, ...], config_file: str | None, as_json: bool) -> None:
    """Run the pipeline PASS… on MODEL, unverified, and show the history of NODE.

    NODE is a node or a value, of the result or of any step. Its history is the rule applications and passes that made
    it and, if it is gone, the one that removed it and its replacement.
    """
    from onnx_passes.cli.settings import settings

    chosen = settings(config_file, passes, needs_passes=True)

    from onnx_passes.history.why import why

    story = why(model, node, chosen.plan())
    show(story, as_json=as_json)
