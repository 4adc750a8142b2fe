"""Run in a process of its own, which imports the passes anew, wait for a change, and run again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import click

from onnx_passes.cli.failures import ErrorReport
from onnx_passes.cli.signals import Terminated
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


def _run(command: Sequence[str], note: Path, watched: Watched) -> WatchOutcome | None:
    """Run once; return None if a file changed during the run, which is then stopped."""
    run = WatchedRun(command, note)
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


def _result(outcome: WatchOutcome) -> str:
    return "the run failed" if outcome.code else "done"


def _tell(changed: Sequence[Path]) -> None:
    more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
    click.echo(f"watch: {time.strftime('%H:%M:%S')} {changed[0].name}{more} changed", err=True)


_MODULE = "onnx_passes.cli.watching.loop"


@dataclass(frozen=True)
class WatchOutcome:
    """Result of a run: exit code, error message, and the files of passes and data that it read."""

    code: int
    error: str = ""
    files: tuple[Path, ...] = ()


class WatchedRun:
    """Running process of a watch; it ignores Ctrl-C, which ends the watch."""

    def __init__(self, arguments: Sequence[str], note: Path) -> None:
        self._note = note
        note.unlink(missing_ok=True)
        command = [sys.executable, "-m", _MODULE, str(note), *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)  # noqa: S603

    def is_over(self, within: float) -> bool:
        """Wait for a while, and return whether the run has ended."""
        try:
            self._process.wait(within)
        except subprocess.TimeoutExpired:
            return False
        return True

    def outcome(self) -> WatchOutcome:
        """Return the outcome of the run; an error with the exit code if it crashed without writing one."""
        code = self._process.wait()
        try:
            told = json.loads(self._note.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return WatchOutcome(code, f"the run ended without a result, with exit code {code}")
        return WatchOutcome(told["code"], told["error"], tuple(map(Path, told["files"])))

    def stop(self) -> None:
        """End the run, gracefully if possible."""
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def main() -> int:
    """Run a command line, and write its outcome."""
    from onnx_passes.cli.main import run_command_line

    note, *arguments = sys.argv[1:]
    signal.signal(signal.SIGTERM, _end_quietly)
    failures: list[ErrorReport] = []
    code = run_command_line(arguments, failed=failures.append)
    told = {"code": code, "error": "\n".join(failure.text for failure in failures), "files": list(_own_files())}
    Path(note).write_text(json.dumps(told), encoding="utf-8")
    return code


def _end_quietly(number: int, frame: object) -> None:
    sys.stderr = StringIO()
    raise Terminated


def _own_files() -> Iterator[str]:
    """List the imported modules outside of installed packages: the code that is being edited."""
    installed = [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if not file or not str(file).endswith(".py"):
            continue
        path = Path(file).resolve()
        if not any(path.is_relative_to(folder) for folder in installed):
            yield str(path)


if __name__ == "__main__":
    sys.exit(main())
