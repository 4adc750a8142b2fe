"""``onnx-passes repro``: failures that were kept in a folder."""

from __future__ import annotations

import json
from pathlib import Path

import click

from onnx_passes.cli.options import running_options
from onnx_passes.core.errors import ExitCode


@click.group("repro", short_help="Repeat a failure that was kept in a folder.")
def command() -> None:
    """Work with the folders in which failures are kept."""


@command.command("run", short_help="Run it again.")
@click.argument("folder")
@running_options
def run(folder: str, as_json: bool) -> int:
    """Run the failure in FOLDER again, and say whether it still occurs.

    Exits with 1 and the report if it does, with 0 if it does not.
    """
    from onnx_passes.debug.repro import repeat

    outcome = repeat(Path(folder))
    if as_json:
        click.echo(json.dumps(outcome.to_json(), indent=2, default=str))
    else:
        click.echo(str(outcome), err=True)
    return ExitCode.VERIFICATION if outcome.fails else ExitCode.OK
