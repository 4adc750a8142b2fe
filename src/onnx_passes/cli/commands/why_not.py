"""``onnx-passes why-not``: why a rule does not apply."""

from __future__ import annotations

import click

from onnx_passes.cli.complete import pass_names
from onnx_passes.cli.options import config_option, running_options, show


@click.command("why-not", short_help="Explain why a rule does not apply.")
@click.argument("model", metavar="MODEL")
@click.argument("rule", metavar="RULE", shell_complete=pass_names)
@click.option("--at", metavar="NODE", help="Only this node, by its name or by that of one of its outputs.")
@click.option(
    "--top", type=click.IntRange(min=1), default=5, show_default=True, help="Number of attempts of a rule to show."
)
@config_option
@running_options
def command(model: str, rule: str, at: str | None, top: int, config_file: str | None, as_json: bool) -> None:
    """Explain where RULE applies to MODEL, and why it fails elsewhere; RULE is any pass that announces its rewrites.

    Shows the longest partial matches: the node of each part of the pattern, where matching stopped and why; for
    hand-written passes, the reasons that they gave. Passes that the rule needs are run first.
    """
    from onnx_passes.cli.settings import settings
    from onnx_passes.debug.why_not import why_not

    chosen = settings(config_file, [rule])
    answer = why_not(model, rule, at=at, top=top, options=chosen.options)
    show(answer, as_json=as_json)
