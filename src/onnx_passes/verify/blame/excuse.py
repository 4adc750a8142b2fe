"""Results beyond a tolerance are excused for a reason that is shown: what rounding does to the original, or ties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.core.plan import Step
from onnx_passes.core.records import StepRecord
from onnx_passes.verify.baseline import Baseline
from onnx_passes.verify.blame.again import CheckedAgain
from onnx_passes.verify.blame.replay import Replay
from onnx_passes.verify.blame.stepwise import Stepwise
from onnx_passes.verify.comparison.compare import compare
from onnx_passes.verify.comparison.noise import Noise
from onnx_passes.verify.comparison.promise import EXPLICIT, Limits, Promise, Rounding, promise_of
from onnx_passes.verify.run.execute import Executor, Sample
from onnx_passes.verify.run.infer_types import infer_types
from onnx_passes.verify.ties.decisions import decisions_of
from onnx_passes.verify.ties.explain import Ties, UnexplainedError

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
        if baseline.complaint(model, results, promise, rounding=rounding) is not None:
            return "rounding is not all that makes a difference"
        return Excuse(f"on {_samples(wrong)} rounding alone moves the original's outputs as far")

    def _by_ties(self, promise: Promise, wrong: Sequence[int]) -> Excuse:
        """Show that the model differs from the one at the last check by ties alone. Raises UnexplainedError."""
        baseline = self._baseline
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
            raise UnexplainedError(f"{ties}, but what else differs uses up the tolerance {spent:.2g} times")
        why = f"accepted up to ties, not as equal: {ties}; the model before, given the same levels, agrees"
        return Excuse(why, ties, spent)

    def _drift(self, promise: Promise, wrong: Sequence[int]) -> float:
        """Return which part of the tolerance was used up at the last check."""
        reference, current = self._baseline.reference(promise), self._baseline.current
        return max(promise.share(compare(reference[number], current[number])) for number in wrong)

    def _unchecked(self) -> tuple[dict[int, Step], dict[int, Step]]:
        """Return the steps that were not checked where they stand: those that promise equality, and all others."""
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
