"""Samples of NaN, infinities, the largest and smallest numbers: compared where passes promise equality.

What a pass does not promise about such numbers it says by the flags ``nnan`` and ``ninf``; then these samples are left
out for it. Whether sums and products of the largest numbers overflow depends on their order, so that a tolerance
promises nothing about them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.verify.comparison.compare import compare
from onnx_passes.verify.comparison.evidence import Promise, PromiseFor
from onnx_passes.verify.local.windows import LocalChecks
from onnx_passes.verify.run.execute import Executable, ExecutionError, Executor, Sample

SpecialKind = Literal["finite", "infinite"]

_WORDS = {"finite": "the largest and smallest numbers", "infinite": "NaN and infinities"}


class Specials:
    """Special samples that a model takes, and what it returned for them last."""

    def __init__(
        self,
        samples: Sequence[tuple[SpecialKind, Sample]],
        ready: Executable,
        executor: Executor,
        feeds: frozenset[str],
    ) -> None:
        self.samples: list[Sample] = []
        self._executor, self._feeds = executor, feeds
        self._kinds: list[SpecialKind] = []
        self._current: list[Sample] = []
        self._found: list[Sample | ExecutionError] | None = None
        self._latest: list[Sample] = []
        self.equal = True
        """Whether the results that the last complaint looked at are those of before, bit by bit."""
        for kind, sample in samples:
            found = _run(ready, sample)
            if not isinstance(found, ExecutionError):
                self.samples.append(sample)
                self._kinds.append(kind)
                self._current.append(found)

    def run(self, ready: Executable) -> None:
        """Run a model, for the next complaint about it."""
        self._found = [_run(ready, sample) for sample in self.samples]

    def complaint(self, model: ir.Model, promise: Promise) -> str:
        """Return the first violation of a promise in the results of a model, or an empty text."""
        if self._found is None:
            self.run(self._executor.prepare(model, engine="onnxruntime", feeds=self._feeds))
        results, self._found, self._latest, self.equal = self._found or (), None, [], True
        for kind, expected, found in zip(self._kinds, self._current, results, strict=True):
            judged = covers(promise)
            if isinstance(found, ExecutionError):
                if judged:
                    return f"with {_WORDS[kind]} in the inputs the model no longer runs: {found}"
                self._latest.append(expected)
                self.equal = False
                continue
            comparison = compare(expected, found)
            self.equal = self.equal and comparison.equal
            wrong = promise.broken(comparison) if judged else None
            if wrong is not None:
                return f"with {_WORDS[kind]} in the inputs: {wrong.message()}"
            self._latest.append(found)
        return ""

    def accept(self) -> None:
        """Go on from the last results, also where something else was the matter and nobody asked about these."""
        if self._found is not None:
            pairs = zip(self._found, self._current, strict=True)
            self._latest = [old if isinstance(new, ExecutionError) else new for new, old in pairs]
        if len(self._latest) == len(self._current):
            self._current, self._latest, self._found = self._latest, [], None


def _run(ready: Executable, sample: Sample) -> Sample | ExecutionError:
    try:
        return ready.run(sample)
    except ExecutionError as error:
        return error


def wrong_special(checks: LocalChecks, promise_for: PromiseFor) -> tuple[int, str] | None:
    """Return the first rewrite that promises equality and breaks it on special samples, and how."""
    try:
        found = checks.run()
    except (ExecutionError, ModelError):
        checks.known = None
        return None
    for check in found:
        application = check.window.application
        promise = promise_for(application.owner)
        if covers(promise) and (difference := check.broken(promise)) is not None:
            return application.number, difference
    return None


def covers(promise: Promise) -> bool:
    """Return whether a promise covers special samples."""
    return promise.is_equality and not promise.ignores & {"nnan", "ninf"}
