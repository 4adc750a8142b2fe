"""``onnx-passes shell``: work on a model step by step."""

from __future__ import annotations

import sys

import click

from onnx_passes.cli.limits import limit_options
from onnx_passes.cli.options import debug_option, import_option


@click.command("shell", short_help="Work on a model step by step.")
@click.argument("model")
@click.option("--inputs", multiple=True, metavar="FILE", help="Data to verify on (.npy, .npz, .pb); may be repeated.")
@click.option("--verify", type=click.Choice(["each", "off"]), default="each", help="When to verify [default: each].")
@click.option("--plain", is_flag=True, help="Use the Python prompt even if IPython is installed.")
@import_option
@limit_options
@debug_option
def command(model: str, inputs: tuple[str, ...], verify: str, plain: bool) -> int:
    r"""Open MODEL at a prompt: apply passes, undo them, inspect the results; every step is verified.

    \b
    apply simplify          undo          diff            save out.onnx
    matches fuse-batchnorm  steps         why conv1       help

    The session is 's', and any Python works: s.apply("simplify"). The prompt is that of IPython if it is installed.
    Commands from a pipe or a file are run one by one; the first error ends them.
    """
    from onnx_passes.cli.console import Shell, read, talk
    from onnx_passes.session.session import open as open_session

    shell = Shell(open_session(model, inputs=list(inputs), verify=verify != "off"))
    if not sys.stdin.isatty():
        return read(shell, sys.stdin)
    talk(shell, plain=plain)
    return 0
