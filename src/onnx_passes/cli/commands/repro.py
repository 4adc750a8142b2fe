"""``onnx-passes repro``: run reproducers of failures."""

from __future__ import annotations

import json
from pathlib import Path

import click

from onnx_passes.cli.options import running_options
from onnx_passes.core.errors import ExitCode


@click.group("repro", short_help="Run the reproducer of a failure again.")
def command() -> None:
    """Work with the folders of reproducers."""


@command.command("run", short_help="Run it again.")
@click.argument("folder")
@running_options
def run(folder: str, as_json: bool) -> int:
    """Run the reproducer in FOLDER, and report whether the failure still occurs.

    Exits with 1 and the report if it does, with 0 if it does not.
    """
    from onnx_passes.debug.repro import repeat

    outcome = repeat(Path(folder))
    if as_json:
        click.echo(json.dumps(outcome.to_json(), indent=2, default=str))
    else:
        click.echo(str(outcome), err=True)
    return ExitCode.VERIFICATION if outcome.fails else ExitCode.OK
