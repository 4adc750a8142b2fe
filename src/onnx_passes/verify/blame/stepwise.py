"""The steps of a repeated run, one by one: each may change results within the tolerance, or by ties alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from onnx_passes.core.instruments import Instrument
from onnx_passes.core.plan import Step
from onnx_passes.core.records import Application, RunRecord, StepRecord
from onnx_passes.verify.blame.successors import Successors
from onnx_passes.verify.comparison.compare import compare
from onnx_passes.verify.comparison.promise import Limits, Promise, promise_of
from onnx_passes.verify.run.execute import Executor, Sample
from onnx_passes.verify.ties.decisions import decisions_of, values_behind
from onnx_passes.verify.ties.explain import Ties, UnexplainedError, explain


class Stepwise(Instrument):
    """Compares the model on samples after every step since one (0 is before the first) with that before the step.

    Where they are further apart than ``promise`` lets them be, ties have to explain it. ``unchecked`` are steps that
    promise equality, by number, and were not looked at where they stand: the results must stay as they were.
    """

    def __init__(
        self,
        since: int,
        unchecked: Mapping[int, Step],
        samples: Sequence[Sample],
        promise: Promise,
        limits: Limits,
        executor: Executor,
    ) -> None:
        self.ties = Ties()
        self._since, self._unchecked, self._samples = since, unchecked, samples
        self._promise, self._limits, self._executor = promise, limits, executor
        self._followed: Successors | None = None
        self._results: list[Sample] = []

    def before_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Begin with the model as it came."""
        if self._since == 0:
            self._follow(model, self._run(model))

    def after_rewrite(self, application: Application) -> None:
        """Follow what was replaced."""
        if self._followed is not None:
            self._followed.after_rewrite(application)

    def after_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Begin after the step, or compare after a later one that changed the model. Raises UnexplainedError."""
        if record.number == self._since:
            self._follow(model, self._run(model))
        elif self._followed is not None and record.modified and not record.has_children:
            results = self._run(model)
            self.ties += self._compare(self._followed, record.number, step, model, results)
            self._follow(model, results)

    def _compare(
        self, followed: Successors, number: int, step: Step, model: ir.Model, results: Sequence[Sample]
    ) -> Ties:
        comparisons = [compare(old, new) for old, new in zip(self._results, results, strict=True)]
        if number in self._unchecked:
            promise = promise_of([step.pass_], self._limits)
            if not all(map(promise.holds, comparisons)):
                raise UnexplainedError(f"{step.name} promises equality and changes results")
            return Ties()
        share = max(map(self._promise.share, comparisons))
        if share <= 1:
            return Ties(share=share)
        before = followed.start
        if before is None or [v.name for v in before.graph.inputs] != [v.name for v in model.graph.inputs]:
            raise UnexplainedError("the interface of the model has changed")
        names = [str(value.name) for node in decisions_of(before.graph) for value in values_behind(node)]
        limits = self._promise.limits or self._limits
        return explain(before, model, followed.find(names, model), self._samples, limits, self._executor)

    def _follow(self, model: ir.Model, results: list[Sample]) -> None:
        self._results, self._followed = results, Successors()
        self._followed.begin(model)

    def _run(self, model: ir.Model) -> list[Sample]:
        ready = self._executor.prepare(model, engine="onnxruntime", feeds=set(self._samples[0]))
        return [ready.run(sample) for sample in self._samples]
