"""Accepted differences beyond a tolerance: rounding moves the original as far, or quantization levels flip at ties.

Ties have to explain every step of the repeated run, and rewrites that nobody has checked are checked again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.check.baseline import Baseline
from onnx_passes.check.blame.diagnosis import Replay, Successors
from onnx_passes.core.errors import ModelError, OnnxPassesError
from onnx_passes.core.instruments import Instrument
from onnx_passes.core.plan import Step
from onnx_passes.core.records import Application, RunRecord, StepRecord
from onnx_passes.verify.comparison.compare import compare
from onnx_passes.verify.comparison.evidence import EXPLICIT, Limits, Promise, Rounding, promise_of
from onnx_passes.verify.comparison.noise import Noise
from onnx_passes.verify.local.windows import MANY, LocalChecks
from onnx_passes.verify.run.activations import Activations
from onnx_passes.verify.run.element_types import infer_types
from onnx_passes.verify.run.execute import ExecutionError, Executor, Sample
from onnx_passes.verify.ties.decisions import decisions_of, values_behind
from onnx_passes.verify.ties.explain import Ties, UnexplainedError, explain


class CheckedAgain(Instrument):
    """Checks all rewrites of ``steps``, by number, on samples.

    A step that changes much is not checked so while passes run, as running the model is cheaper: only where results
    differ it matters that each of its rewrites holds. Raises UnexplainedError for one that does not.
    """

    def __init__(
        self, steps: Mapping[int, Step], samples: Sequence[Sample], limits: Limits, executor: Executor
    ) -> None:
        self._steps, self._samples, self._limits, self._executor = steps, samples, limits, executor
        self._checks: LocalChecks | None = None

    def before_pass(self, record: StepRecord, step: Step, model: ir.Model) -> str | None:
        """Prepare to check the rewrites of a step that is to be checked again."""
        self._checks = LocalChecks(self._look, most_nodes=MANY) if record.number in self._steps else None
        if self._checks is not None:
            self._checks.begin(model)
        return None

    def _look(self, model: ir.Model) -> Activations:
        """Run the model for the values that its nodes read."""
        known = Activations(self._executor)
        try:
            known.fill(model, self._samples)
        except (ExecutionError, ModelError) as error:
            raise UnexplainedError(str(error)) from error
        return known

    def before_rewrite(self, application: Application) -> str | None:
        """Record a rewrite."""
        if self._checks is not None:
            self._checks.add(application)
        return None

    def after_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Check the rewrites of the step."""
        checks, self._checks = self._checks, None
        if checks is None or record.number not in self._steps:
            return
        if checks.missed(record.applications) or not checks.windows:
            raise UnexplainedError(f"the rewrites of {step.name} could not be checked on their own nodes")
        try:
            found = checks.run()
        except (ExecutionError, ModelError) as error:
            raise UnexplainedError(str(error)) from error
        wrong = checks.first_wrong(found, lambda owner: promise_of([owner or step.pass_], self._limits))
        if wrong is not None:
            raise UnexplainedError(f"rewrite {wrong[0]} of {step.name} is wrong on its own nodes: {wrong[2]}")


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
        """Begin with the original model."""
        if self._since == 0:
            self._follow(model, self._run(model))

    def after_rewrite(self, application: Application) -> None:
        """Follow replaced values."""
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


Taken = tuple[StepRecord, Step]


@dataclass(frozen=True)
class Excuse:
    """Why results may differ by more than the tolerance; ``spent`` is which part of it they use up apart from ties."""

    reason: str
    ties: Ties | None = None
    spent: float = 0.0


class Excuses:
    """Looks for an excuse of the steps ``pending`` since step ``since`` of a run, which can be repeated."""

    def __init__(
        self,
        baseline: Baseline,
        replay: Replay,
        executor: Executor,
        limits: Limits,
        pending: Sequence[Taken],
        since: int,
    ) -> None:
        self._baseline = baseline
        self._replay = replay
        self._executor = executor
        self._limits = limits
        self._pending = pending
        self._since = since

    def find(self, model: ir.Model, results: Sequence[Sample], promise: Promise) -> Excuse | str:
        """Return an excuse of results that are not as promised, or why there is none."""
        if promise.claim.kind != "tolerance" or self._baseline.engine != "onnxruntime":
            return ""
        wrong = self._not_as_promised(results, promise)
        if not wrong:
            return ""
        try:
            original = self._replay.after_step(self._baseline.shown)
            infer_types(original)
            if promise.unit or not decisions_of(original.graph):
                return self._by_rounding(original, model, results, promise, wrong)
            return self._by_ties(promise, wrong)
        except (OnnxPassesError, UnexplainedError) as error:
            return str(error)

    def refused(self, excuse: Excuse) -> str:
        """Return why an excuse does not count against outputs that the user expects, and the option that keeps them."""
        why = f"{excuse.reason}, but the outputs are expected as given"
        if excuse.ties is None or not any(getattr(step.pass_, "semantics", "") == "exact" for _, step in self._pending):
            return why
        return (
            f"{why}: with the option semantics=float, as in streamline{{semantics=float}} or finn{{semantics=float}}, "
            "ties go where floats take them"
        )

    def _not_as_promised(self, results: Sequence[Sample], promise: Promise) -> list[int]:
        reference, left = self._baseline.reference(promise), self._baseline.left(promise)
        pairs = zip(reference, results, strict=True)
        return [number for number, (old, new) in enumerate(pairs) if not left.holds(compare(old, new))]

    def _by_rounding(
        self, original: ir.Model, model: ir.Model, results: Sequence[Sample], promise: Promise, wrong: Sequence[int]
    ) -> Excuse | str:
        """Widen the tolerance by how far rounding moves the outputs of the original on these samples."""
        baseline, rounding = self._baseline, dict[int, Rounding]()
        outputs = [value for value in original.graph.outputs if value.producer() is not None]
        noise, left = Noise(original, outputs, self._executor, unit=promise.unit), baseline.left(promise)
        for number in wrong:
            comparison = compare(baseline.reference(promise)[number], results[number])
            bounds = map(baseline.follow_outputs, noise.growing(baseline.given[number]))
            bound = next((each for each in bounds if left.broken(comparison, each) is None), None)
            if bound is None:
                return "rounding alone does not move the original's outputs so far"
            rounding[number] = bound
        if baseline.violation(model, results, promise, rounding=rounding) is not None:
            return "rounding is not all that makes a difference"
        return Excuse(f"on {_samples(wrong)} rounding alone moves the original's outputs as far")

    def _by_ties(self, promise: Promise, wrong: Sequence[int]) -> Excuse:
        """Show that the model differs from the one at the last check by ties alone. Raises UnexplainedError."""
        baseline = self._baseline
        if not self._pending:
            raise UnexplainedError("levels may have flipped at ties, but no rewrites are known that could be checked")
        samples = [baseline.samples[number] for number in wrong]
        equal, others = self._unchecked()
        steps = Stepwise(self._since, equal, samples, promise, self._limits, self._executor)
        again = CheckedAgain(others, samples, self._limits, self._executor)
        self._replay.after_step(self._pending[-1][0].number, steps, again)
        ties = steps.ties
        if not ties.flipped:
            raise UnexplainedError("no level flipped at a tie")
        spent = baseline.spent + self._drift(promise, wrong) + ties.share
        if spent > 1:
            raise UnexplainedError(f"{ties}, but the other differences use up the tolerance {spent:.2g} times")
        why = f"accepted up to ties, not as equal: {ties}; the model before, given the same levels, agrees"
        return Excuse(why, ties, spent)

    def _drift(self, promise: Promise, wrong: Sequence[int]) -> float:
        """Return which part of the tolerance was used up at the last check."""
        reference, current = self._baseline.reference(promise), self._baseline.current
        return max(promise.share(compare(reference[number], current[number])) for number in wrong)

    def _unchecked(self) -> tuple[dict[int, Step], dict[int, Step]]:
        """Return the steps without a local check: those that claim equality, and all others."""
        equal, others = dict[int, Step](), dict[int, Step]()
        for record, step in self._pending:
            if step.name == EXPLICIT or not record.modified or record.all_evidence.is_proved:
                continue
            if record.evidence is None or not record.evidence.windows:
                is_equal = promise_of([step.pass_], self._limits).is_equality
                (equal if is_equal else others)[record.number] = step
        return equal, others


def _samples(numbers: Sequence[int]) -> str:
    return f"sample {numbers[0]}" if len(numbers) == 1 else f"samples {', '.join(map(str, numbers))}"
