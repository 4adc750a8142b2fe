"""Judges say whether a model is bad: a function, a command, or several of them together."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import onnx_ir as ir

from onnx_passes.core.base import Pass
from onnx_passes.core.errors import ModelError, UsageError
from onnx_passes.verify.blame.search import GOOD, Verdict

_SKIP = 125
"""The exit code by which a command says that it cannot tell, as for ``git bisect run``."""


class Judge:
    """Decides whether a model is bad; ``start`` sees the original first, ``passes`` are those that changed it."""

    def start(self, original: ir.Model) -> Verdict:
        """Take the original model as the measure, and judge it."""
        return self.judge(original, ())

    def judge(self, model: ir.Model, passes: Sequence[Pass]) -> Verdict:
        """Judge a model."""
        raise NotImplementedError

    def is_harmless(self, before: ir.Model, after: ir.Model, passes: Sequence[Pass]) -> bool:
        """Tell whether a change would be good if the model before it were the original one."""
        return False


class ByFunction(Judge):
    """Ask a function, which answers with something true if the model is bad: a text is the reason."""

    def __init__(self, is_bad: Callable[[ir.Model], object]) -> None:
        self._is_bad = is_bad

    def judge(self, model: ir.Model, passes: Sequence[Pass]) -> Verdict:
        """Judge a model."""
        answer = self._is_bad(model)
        return Verdict("bad", answer if isinstance(answer, str) else "the function says so") if answer else GOOD


class ByCommand(Judge):
    """Run a command on the model as a file, named where ``{}`` stands, or last.

    Exit code 0 is good, 125 means that it cannot tell, everything else is bad. No shell is involved.
    """

    def __init__(self, command: str) -> None:
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise UsageError(f"the command '{command}' cannot be read: {error}", hint="check its quotes") from error
        if not self._words:
            raise UsageError("the command is empty", hint="write something like 'python check.py {}'")
        if not any("{}" in word for word in self._words):
            self._words.append("{}")

    def judge(self, model: ir.Model, passes: Sequence[Pass]) -> Verdict:
        """Judge a model."""
        from onnx_passes.graph.save import save

        with tempfile.TemporaryDirectory(prefix="onnx-passes-") as folder:
            path = Path(folder) / "model.onnx"
            try:
                save(model, path)
            except ModelError as error:
                return Verdict("bad", f"the model cannot be saved: {error}")
            return self._run([word.replace("{}", str(path)) for word in self._words])

    def _run(self, words: Sequence[str]) -> Verdict:
        try:
            # The user names the command, and no shell reads it.
            done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)  # noqa: S603
        except OSError as error:
            raise UsageError(
                f"the command cannot be started: {error.strerror}",
                where=words[0],
                hint="for what a shell would do, write sh -c '…'",
            ) from error
        if done.returncode in (0, _SKIP):
            return GOOD if done.returncode == 0 else Verdict("skip", "the command cannot tell")
        lines = done.stdout.decode(errors="replace").strip().splitlines()
        ending = f"exit code {done.returncode}" if done.returncode > 0 else f"signal {-done.returncode}"
        return Verdict("bad", f"the command ended with {ending}" + (f": {lines[-1].strip()}" if lines else ""))


class Unanimous(Judge):
    """A model is good if all judges say so."""

    def __init__(self, *judges: Judge) -> None:
        self._judges = judges

    def start(self, original: ir.Model) -> Verdict:
        """Take the original model as the measure, and judge it."""
        return _strictest([judge.start(original) for judge in self._judges])

    def judge(self, model: ir.Model, passes: Sequence[Pass]) -> Verdict:
        """Judge a model."""
        return _strictest([judge.judge(model, passes) for judge in self._judges])

    def is_harmless(self, before: ir.Model, after: ir.Model, passes: Sequence[Pass]) -> bool:
        """Tell whether all judges find a change harmless."""
        return all(judge.is_harmless(before, after, passes) for judge in self._judges)


def _strictest(verdicts: Sequence[Verdict]) -> Verdict:
    return min(verdicts, key=lambda verdict: ("bad", "skip", "good").index(verdict.status))
