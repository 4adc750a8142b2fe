"""``onnx-passes completion``: the script that a shell sources."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_EXAMPLES = """\b
bash:  eval "$(onnx-passes completion bash)"    in ~/.bashrc
zsh:   eval "$(onnx-passes completion zsh)"     in ~/.zshrc
fish:  onnx-passes completion fish | source     in ~/.config/fish/config.fish"""


@click.command("completion", short_help="Print the completion script for a shell.", epilog=_EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script for SHELL; source it from the start-up file of the shell."""
    from onnx_passes.cli.main import VARIABLE, cli
    from onnx_passes.cli.shells import register

    register()
    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(cli, {}, "onnx-passes", VARIABLE).source())
