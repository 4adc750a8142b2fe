"""``onnx-passes why-not``: why a rule does not apply."""

from __future__ import annotations

import click

from onnx_passes.cli.complete import pass_names
from onnx_passes.cli.options import config_option, running_options, show


@click.command("why-not", short_help="Explain why a rule does not apply.")
@click.argument("model", metavar="MODEL")
@click.argument("rule", metavar="RULE", shell_complete=pass_names)
@click.option("--at", metavar="NODE", help="Ask for one node, by its name or by that of one of its outputs.")
@click.option(
    "--top", type=click.IntRange(min=1), default=5, show_default=True, help="How many attempts of a rule to show."
)
@config_option
@running_options
def command(model: str, rule: str, at: str | None, top: int, config_file: str | None, as_json: bool) -> None:
    """Explain where RULE, a pass that announces its rewrites, applies to MODEL and what stops it elsewhere.

    Shows the attempts that came furthest: which part of the pattern is which node, where matching stopped and why; of
    passes written by hand, the reasons that they gave. Passes that the rule needs are run first.
    """
    from onnx_passes.cli.settings import settings
    from onnx_passes.debug.why_not import why_not

    chosen = settings(config_file, [rule])
    answer = why_not(model, rule, at=at, top=top, options=chosen.options)
    show(answer, as_json=as_json)
