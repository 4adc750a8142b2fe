"""The inquiry after a failure: which step, which rewrite, which value; and all of it in a report and a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx_ir as ir

from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.core.plan import Step
from onnx_passes.core.records import Evidence, Status, StepRecord
from onnx_passes.verify.baseline import Baseline
from onnx_passes.verify.culprit import describe_application, first_bad, first_divergence
from onnx_passes.verify.execute import Executor
from onnx_passes.verify.failure import Failure, PostconditionError, VerificationError
from onnx_passes.verify.promise import Limits, promise_of
from onnx_passes.verify.replay import Replay
from onnx_passes.verify.reproducer import write_reproducer

Taken = tuple[StepRecord, Step]


@dataclass
class Inquiry:
    """All that is known when a check fails: the steps so far, of which the first ``checked`` are known to be right."""

    baseline: Baseline
    executor: Executor
    limits: Limits
    replay: Replay
    steps: Sequence[Taken]
    checked: int
    model: ir.Model
    origin: str
    seed: int
    reproducer: Path | None

    def report(self, difference: str, what: str, sample: int, application: int | None = None) -> PostconditionError:
        """Find the culprit and put together the error; ``application`` is the rewrite to blame, if it is known."""
        suspects = self.steps[self.checked :]
        position = len(suspects) - 1
        if application is None and position > 0:
            position = self._first_bad_step(suspects, sample)
        record, step = suspects[position]
        promise = promise_of([step.pass_ for _, step in suspects[: position + 1]], self.limits)
        failure = Failure(record.number, step.text, str(promise.claim), difference, self._describe(sample))
        if application is None and record.applications:
            application = self._first_bad_application(suspects[: position + 1], sample)
        if application is not None:
            self._name(failure, record, application)
        number = self.checked + position
        before = self._model_after(self.steps[number - 1][0].number if number else 0)
        after = self.model if position == len(suspects) - 1 else self._model_after(record.number)
        if before is not None and after is not None:
            values, engine = self.baseline.samples[sample], self.baseline.engine
            failure.diverges = first_divergence(before, after, values, self.executor, engine)
        if self.reproducer is not None and before is not None:
            failure.reproducer = self._write(self.reproducer, before, step, failure)
        return self.conclude(record, step, failure, what)

    @staticmethod
    def conclude(record: StepRecord, step: Step, failure: Failure, what: str) -> PostconditionError:
        """Mark the step as failed and make the error of it."""
        record.status, record.reason = Status.FAILED, failure.difference
        record.evidence = Evidence("failed", failure.claim, reason=failure.difference)
        error = PostconditionError(f"Post-condition for pass '{type(step.pass_).__name__}' failed", failure)
        error.__cause__ = VerificationError(what)
        return error

    def _first_bad_step(self, suspects: Sequence[Taken], sample: int) -> int:
        def is_good(position: int) -> bool:
            model = self._model_after(suspects[position][0].number)
            return model is not None and self._is_good(model, suspects[: position + 1], sample)

        return first_bad(range(len(suspects)), is_good)

    def _first_bad_application(self, suspects: Sequence[Taken], sample: int) -> int | None:
        record = suspects[-1][0]
        earlier = sum(taken.applications for taken, _ in self.steps if taken.number < record.number)

        def is_good(number: int) -> bool:
            return self._is_good(self.replay.after_application(record.number, number), suspects, sample)

        try:
            return first_bad(range(earlier + 1, earlier + record.applications + 1), is_good)
        except OnnxPassesError:
            return None

    def _is_good(self, model: ir.Model, steps: Sequence[Taken], sample: int) -> bool:
        promise = promise_of([step.pass_ for _, step in steps], self.limits)
        try:
            ready = self.executor.prepare(model, engine=self.baseline.engine, feeds=self.baseline.feeds)
            results = [ready.run(self.baseline.samples[sample])]
            return self.baseline.complaint(model, results, promise, first=sample) is None
        except OnnxPassesError:
            return False

    def _model_after(self, step: int) -> ir.Model | None:
        try:
            return self.replay.after_step(step)
        except OnnxPassesError:
            return None

    def _name(self, failure: Failure, record: StepRecord, application: int) -> None:
        culprit = describe_application(self.replay, record.number, application)
        if culprit is not None:
            place = f"number {culprit.in_step} of {record.applications} in this pass, by {culprit.rule}"
            failure.application, failure.number = place, application
            failure.source, failure.matched, failure.replacement = culprit.source, culprit.matched, culprit.added

    def _describe(self, sample: int) -> str:
        shapes = ", ".join(f"{name}{list(array.shape)}" for name, array in self.baseline.samples[sample].items())
        return f"number {sample} ({shapes or 'no inputs'}), {self.origin}"

    def _write(self, folder: Path, before: ir.Model, step: Step, failure: Failure) -> str:
        tolerance = (self.limits.atol, self.limits.rtol)
        try:
            samples, report = self.baseline.samples, failure.to_json()
            return str(
                write_reproducer(folder, before, step.text, samples, report, seed=self.seed, tolerance=tolerance)
            )
        except OnnxPassesError as error:
            return f"none: {error}"
