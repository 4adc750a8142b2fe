"""One run of a watch, in a process of its own: it imports passes as they are now, whatever they were before."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from onnx_passes.cli.failures import ErrorReport
from onnx_passes.cli.signals import Terminated

_MODULE = "onnx_passes.cli.watching.child"


@dataclass(frozen=True)
class Outcome:
    """How a run ended: its exit code, what it said if it failed, and the files of passes and data that it read."""

    code: int
    error: str = ""
    files: tuple[Path, ...] = ()


class Run:
    """A run that has been started; it hears nothing of Ctrl-C, which is meant for the watch."""

    def __init__(self, arguments: Sequence[str], note: Path) -> None:
        self._note = note
        note.unlink(missing_ok=True)
        command = [sys.executable, "-m", _MODULE, str(note), *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)  # noqa: S603

    def is_over(self, within: float) -> bool:
        """Tell whether the run has ended, and wait for that for a while."""
        try:
            self._process.wait(within)
        except subprocess.TimeoutExpired:
            return False
        return True

    def outcome(self) -> Outcome:
        """Return how the run ended; one that crashed tells nothing itself."""
        code = self._process.wait()
        try:
            told = json.loads(self._note.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return Outcome(code, f"the run ended without a word, with exit code {code}")
        return Outcome(told["code"], told["error"], tuple(map(Path, told["files"])))

    def stop(self) -> None:
        """End the run, cleanly if it lets us."""
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def main() -> int:
    """Run a command line, and note how it went."""
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
    """List the modules that are somebody's work in progress: those that were not installed."""
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
