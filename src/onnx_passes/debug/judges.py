"""Judges mark models of a run as good or bad: by results, metrics, a function, a command, or several of them."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx_ir as ir

from onnx_passes.check.blame.diagnosis import GOOD, Mark, Replay
from onnx_passes.check.blame.excuse import Taken
from onnx_passes.check.original import Original
from onnx_passes.check.settings import Settings
from onnx_passes.check.verdict import check, check_against
from onnx_passes.core.claims import Claim
from onnx_passes.core.errors import ModelError, OnnxPassesError, UsageError
from onnx_passes.verify.comparison.declarations import ChangesInterface, InterfaceHistory
from onnx_passes.verify.comparison.evidence import DEFAULT, Limits, Promise, promise_of
from onnx_passes.verify.failure import VerificationError
from onnx_passes.verify.metrics.metrics import (
    MetricRange,
    Originals,
    accepted,
    find_metric,
    measure,
    range_text,
    run_now,
)
from onnx_passes.verify.run.execute import Engine, Executable, ExecutionError, Executor
from onnx_passes.verify.samples.coverage import run_samples
from onnx_passes.verify.samples.dataset import Dataset
from onnx_passes.verify.samples.sources import listed

_SKIP = 125
"""Exit code of a command that cannot decide, as for ``git bisect run``."""


class Judge:
    """Marks models as good or bad; ``start`` is called with the original."""

    def start(self, original: ir.Model, replay: Replay | None = None) -> Mark:
        """Set the original model as the reference, and mark it; ``replay`` repeats the run that changes it."""
        return self.judge(original, ())

    def judge(self, model: ir.Model, taken: Sequence[Taken], *, is_partial: bool = False) -> Mark:
        """Mark the model after some steps; ``is_partial`` if the last step is incomplete."""
        raise NotImplementedError

    def is_harmless(self, before: ir.Model, after: ir.Model, taken: Sequence[Taken]) -> bool:
        """Return whether a change would be good if the model before it were the original one."""
        return False


class ByFunction(Judge):
    """Call a function whose result is true for a bad model: a text is the reason."""

    def __init__(self, is_bad: Callable[[ir.Model], object]) -> None:
        self._is_bad = is_bad

    def judge(self, model: ir.Model, taken: Sequence[Taken], *, is_partial: bool = False) -> Mark:
        """Mark a model."""
        answer = self._is_bad(model)
        return Mark("bad", answer if isinstance(answer, str) else "the function returned true") if answer else GOOD


class ByCommand(Judge):
    """Run a command on the model as a file, whose path replaces ``{}``, or is appended.

    Exit code 0 is good, 125 means undecided, everything else is bad. No shell is involved.
    """

    def __init__(self, command: str) -> None:
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise UsageError(f"the command '{command}' cannot be read: {error}", hint="check its quotes") from error
        if not self._words:
            raise UsageError("the command is empty", hint="as in 'python check.py {}'")
        if not any("{}" in word for word in self._words):
            self._words.append("{}")

    def judge(self, model: ir.Model, taken: Sequence[Taken], *, is_partial: bool = False) -> Mark:
        """Mark a model."""
        from onnx_passes.graph.save import save

        with tempfile.TemporaryDirectory(prefix="onnx-passes-") as folder:
            path = Path(folder) / "model.onnx"
            try:
                save(model, path)
            except ModelError as error:
                return Mark("bad", f"the model cannot be saved: {error}")
            return self._run([word.replace("{}", str(path)) for word in self._words])

    def _run(self, words: Sequence[str]) -> Mark:
        try:
            # The user wrote the command, and no shell interprets it.
            done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)  # noqa: S603
        except OSError as error:
            raise UsageError(
                f"the command cannot be started: {error.strerror}",
                where=words[0],
                hint="for shell syntax, write sh -c '…'",
            ) from error
        if done.returncode in (0, _SKIP):
            return GOOD if done.returncode == 0 else Mark("skip", "the command could not decide")
        lines = done.stdout.decode(errors="replace").strip().splitlines()
        ending = f"exit code {done.returncode}" if done.returncode > 0 else f"signal {-done.returncode}"
        return Mark("bad", f"the command ended with {ending}" + (f": {lines[-1].strip()}" if lines else ""))


class ByResults(Judge):
    """Give verdicts on models by comparing results with those of the original, or with expected outputs.

    Without ``limits``, the claim is what the passes promise together, with the ``default`` limits of a tolerance.
    ``special`` as in ``Settings``.
    """

    def __init__(
        self,
        *,
        inputs: Sequence[Any] = (),
        expect: Sequence[Any] = (),
        seed: int = 0,
        limits: Limits | None = None,
        default: Limits | None = None,
        special: bool | None = None,
        executor: Executor | None = None,
    ) -> None:
        _require_inputs(inputs, expect)
        self.limits = limits
        asked = limits or default or DEFAULT
        self._settings = Settings(
            inputs=inputs, expect=expect, seed=seed, limits=asked, special=special, executor=executor or Executor()
        )
        self._original: Original | None = None
        self._replay: Replay | None = None

    def start(self, original: ir.Model, replay: Replay | None = None) -> Mark:
        """Run the original model; its outputs, or the expected ones, are the reference for all others."""
        self._replay = replay
        try:
            with _of_original():
                self._original = Original(original, self._settings)
        except VerificationError as error:
            return Mark("bad", error.what)
        if self._original.established() is None:
            raise _unjudged(self._original.obstacle)
        return GOOD

    def judge(self, model: ir.Model, taken: Sequence[Taken], *, is_partial: bool = False) -> Mark:
        """Mark a model by the verdict on the claim of the steps."""
        assert self._original is not None
        replay = None if is_partial else self._replay
        changes = [
            (model if replay is None else replay.after_step(record.number - 1), step.pass_)
            for record, step in taken
            if isinstance(step.pass_, ChangesInterface)
        ]
        try:
            verdict = check_against(
                self._original, self._claim(taken), model, self._settings, taken if replay else (), replay, changes
            )
        except UsageError as error:
            return Mark("skip", f"the samples no longer fit the model: {error}")
        if verdict.violation is not None:
            return Mark("bad", f"{verdict.violation.difference}{_place(verdict.violation.sample)}")
        return GOOD if verdict.holds else Mark("skip", verdict.evidence.reason)

    def is_harmless(self, before: ir.Model, after: ir.Model, taken: Sequence[Taken]) -> bool:
        """Return whether two models agree as claimed, although one of them is too far from the original."""
        baseline = None if self._original is None else self._original.baseline
        if baseline is None:
            return False
        try:
            # Generated inputs come with special ones, which decide as well.
            given = baseline.samples if self._settings.inputs else ()
            settings = replace(self._settings, inputs=given, expect=())
            return check(self._claim(taken), before, after, settings).holds
        except OnnxPassesError:
            return False

    def _claim(self, taken: Sequence[Taken]) -> Promise:
        if self.limits is not None or self._settings.expect:
            return Promise(Claim("tolerance"), self._settings.limits)
        return promise_of([step.pass_ for _, step in taken], self._settings.limits)


class ByMetrics(Judge):
    """Measure metrics, by name or ``module:function``, and compare them with their accepted ranges.

    Results are compared with expected outputs or, without any, with those of the original model.
    """

    def __init__(
        self,
        ranges: Mapping[str, MetricRange],
        *,
        inputs: Sequence[Any] = (),
        expect: Sequence[Any] = (),
        seed: int = 0,
        executor: Executor | None = None,
        base: Path | None = None,
    ) -> None:
        _require_inputs(inputs, expect)
        self.ranges = dict(ranges)
        self._inputs, self._expect, self._seed = listed(inputs), listed(expect), seed
        self._executor = executor or Executor()
        self._metrics = {name: find_metric(name, base=base) for name in ranges}
        self._engine: Engine = "onnxruntime"

    def start(self, original: ir.Model, replay: Replay | None = None) -> Mark:
        """Read the data and measure the original model."""
        with _of_original():
            ready = self._executor.prepare(original)
            if self._inputs:
                self._data = Dataset.read(original, self._inputs, self._expect)
            else:
                self._data = Dataset.of(original, run_samples(ready, original, (), self._seed)[0])
        self._engine, self._originals = ready.engine, Originals(ready)
        self._interface = InterfaceHistory(tuple(str(value.name) for value in original.graph.outputs))
        return self._measured(ready)

    def judge(self, model: ir.Model, taken: Sequence[Taken], *, is_partial: bool = False) -> Mark:
        """Mark a model; one that can no longer be measured is bad."""
        try:
            return self._measured(self._executor.prepare(model, engine=self._engine))
        except OnnxPassesError as error:
            return Mark("bad", f"the model can no longer be measured: {error}")

    def _measured(self, ready: Executable) -> Mark:
        run = run_now(ready, self._interface)
        states = measure(self._metrics, self._data.batches(), run, self._originals, self._interface)
        for name, state in states.items():
            if not accepted(state.value(), self.ranges[name]):
                return Mark("bad", f"{name} is {state.value():g}, accepted is {range_text(self.ranges[name])}")
        return GOOD


class Unanimous(Judge):
    """A model is good if all judges call it good."""

    def __init__(self, *judges: Judge) -> None:
        self._judges = judges

    def start(self, original: ir.Model, replay: Replay | None = None) -> Mark:
        """Set the original model as the reference, and mark it."""
        return _strictest([judge.start(original, replay) for judge in self._judges])

    def judge(self, model: ir.Model, taken: Sequence[Taken], *, is_partial: bool = False) -> Mark:
        """Mark a model."""
        return _strictest([judge.judge(model, taken, is_partial=is_partial) for judge in self._judges])

    def is_harmless(self, before: ir.Model, after: ir.Model, taken: Sequence[Taken]) -> bool:
        """Return whether all judges find a change harmless."""
        return all(judge.is_harmless(before, after, taken) for judge in self._judges)


def _strictest(marks: Sequence[Mark]) -> Mark:
    return min(marks, key=lambda mark: ("bad", "skip", "good").index(mark.status))


def _place(sample: int) -> str:
    return "" if sample < 0 else f" (sample {sample})"


def _require_inputs(inputs: Sequence[Any], expect: Sequence[Any]) -> None:
    if listed(expect) and not listed(inputs):
        raise UsageError("expected outputs are given without inputs", hint="give their inputs")


@contextmanager
def _of_original() -> Generator[None]:
    """Raise UsageError if the original model, the reference for results, cannot be run."""
    try:
        yield
    except ExecutionError as error:
        raise _unjudged(str(error)) from error


def _unjudged(obstacle: str) -> UsageError:
    hint = "use a command as the criterion"
    return UsageError(f"the original model cannot be run: {obstacle}", hint=hint)
