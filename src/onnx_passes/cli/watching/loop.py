"""Run, wait for a change, run again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import click

from onnx_passes.cli.watching.child import Outcome, Run
from onnx_passes.cli.watching.files import Watched, state_of, understood
from onnx_passes.cli.watching.server import ReportServer

_PAUSE = 0.25


def watch(arguments: Sequence[str], page: Path, folder: Path, server: ReportServer) -> None:
    """Repeat a run whenever its files change, until an interrupt; ``folder`` is for temporary results."""
    command = understood(arguments)
    output = () if command.output else ("--output", str(folder / "model.onnx"))
    whole = ("run", *arguments, *output, "--report", str(page))
    watched = Watched(command.files())
    while True:
        before = state_of(page)
        outcome = _run(whole, folder / "outcome.json", watched)
        if outcome is None:
            continue
        files = {file.resolve(): None for file in (*understood(arguments).files(), *outcome.files)}
        # The file of a pass that cannot be imported is unknown to this run, but not to the one before.
        kept = watched.files if outcome.code else ()
        watched.watch({**files, **dict.fromkeys(kept)})
        # A report that was written shows the failure itself.
        server.announce(outcome.error if state_of(page) == before else "")
        click.echo(f"watch: {_result(outcome)}; {len(watched.files)} files, {server.url}", err=True)
        while not (changed := watched.changed()):
            time.sleep(_PAUSE)
        _tell(changed)


def _run(command: Sequence[str], note: Path, watched: Watched) -> Outcome | None:
    """Run once; return None if a file changed during the run, which is then stopped."""
    run = Run(command, note)
    try:
        while not run.is_over(_PAUSE):
            if changed := watched.changed():
                run.stop()
                _tell(changed)
                return None
        return run.outcome()
    except BaseException:
        run.stop()
        raise


def _result(outcome: Outcome) -> str:
    return "the run failed" if outcome.code else "done"


def _tell(changed: Sequence[Path]) -> None:
    more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
    click.echo(f"watch: {time.strftime('%H:%M:%S')} {changed[0].name}{more} changed", err=True)
