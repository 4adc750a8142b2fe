"""Reduce the failure of a pipeline: find the failing pass, reduce the model before it, and drop unneeded passes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

import onnx_passes.passes  # noqa: F401  # pyright: ignore[reportUnusedImport] - teaches the registry foreign rules
from onnx_passes.check.verification import Limits
from onnx_passes.core.compose import PassLike
from onnx_passes.core.errors import OnnxPassesError, UsageError
from onnx_passes.core.instruments import Instrument
from onnx_passes.core.manager import Manager
from onnx_passes.core.plan import Plan, Step, Why, plan
from onnx_passes.core.records import StepRecord
from onnx_passes.debug.reduce.interesting import (
    ByPipeline,
    Observation,
    Symptom,
    fails_by_pipeline,
    special_samples,
    usable_samples,
)
from onnx_passes.debug.reduce.reducer import Reduction
from onnx_passes.debug.reduce.reducer import reduce as reduce_model
from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.load import Source, load
from onnx_passes.verify.run.execute import Sample
from onnx_passes.verify.samples.sources import listed


@dataclass(frozen=True)
class ReducedFailure:
    """Reduced model, the pipeline that still fails on it, and the symptom of the failure."""

    reduction: Reduction
    pipeline: str
    symptom: Symptom
    error: Exception

    @property
    def model(self) -> ir.Model:
        """Return the reduced model."""
        return self.reduction.model

    @property
    def samples(self) -> list[Sample]:
        """Return the inputs on which it fails."""
        return self.reduction.samples


def reduce(
    model: Source,
    pipeline: PassLike | Iterable[PassLike] | Plan,
    *,
    inputs: Sequence[Any] = (),
    seed: int = 0,
    options: Mapping[str, Mapping[str, object]] | None = None,
    limits: Limits | None = None,
    most_seconds: float = 300.0,
) -> ReducedFailure:
    """Reduce a model to the fewest nodes and the simplest data on which a pipeline still fails in the same way.

    ``inputs`` are as for ``apply``; without any they are generated from the seed. The model is left as it is. Raises
    UsageError if the pipeline does not fail.
    """
    start = load(model)
    planned = pipeline if isinstance(pipeline, Plan) else plan(pipeline, defaults=options)
    samples = usable_samples(start, inputs, seed=seed)
    fails = fails_by_pipeline(planned, limits)
    if not listed(inputs) and fails.observe(start, samples) is None:
        # A run would also try NaN, infinities and the largest numbers.
        special = fails_by_pipeline(planned, limits, special=True, seed=seed)
        samples += special_samples(start, seed) if special.observe(start, samples) is not None else []
    return reduce_failure(fails, start, samples, most_seconds=most_seconds)


def reduce_failure(
    fails: ByPipeline, model: ir.Model, samples: Sequence[Sample], *, most_seconds: float = 300.0
) -> ReducedFailure:
    """Reduce model, samples and pipeline; raises UsageError if the pipeline does not fail."""
    seen = fails.observe(model, samples)
    if seen is None:
        raise UsageError(
            f"there is no failure to reduce: '{fails.planned.pipeline}' does not fail on this model",
            hint="check passes, inputs and tolerance",
        )
    start, fails = _narrowed(fails, model, samples, seen)
    reduction = reduce_model(start, samples, fails, executor=fails.executor, most_seconds=most_seconds)
    fails = _with_fewer_steps(fails, reduction)
    last = fails.observe(reduction.model, reduction.samples)
    return ReducedFailure(reduction, fails.planned.pipeline, seen.symptom, (last or seen).error)


def _narrowed(
    fails: ByPipeline, model: ir.Model, samples: Sequence[Sample], seen: Observation
) -> tuple[ir.Model, ByPipeline]:
    """Take the pass that fails alone, on the model as it was before, if it fails there, too."""
    planned = fails.planned
    culprit = next((s for _, s in planned.walk() if s.text == seen.symptom.step and not s.children), None)
    before = _model_before(planned, model, seen.number) if culprit is not None else None
    if culprit is not None and before is not None:
        alone = fails.on(Plan((Step(culprit.pass_, Why("requested")),), culprit.text), seen.symptom)
        if alone(before, list(samples)):
            return before, alone
    return model, fails.on(planned, seen.symptom)


class _Before(Instrument):
    """Instrument that copies the model before a step, and skips this step and all later ones."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.model: ir.Model | None = None

    def before_pass(self, record: StepRecord, step: Step, model: ir.Model) -> str | None:
        if self.model is None and record.number == self.number:
            self.model = copy_model(model)
        return "not needed" if self.model is not None else None


def _model_before(planned: Plan, model: ir.Model, number: int) -> ir.Model | None:
    watch = _Before(number)
    try:
        Manager([watch]).run(planned, copy_model(model))
    except OnnxPassesError:
        # Passes after the one that failed may no longer work.
        return watch.model
    return watch.model


def _with_fewer_steps(fails: ByPipeline, reduction: Reduction) -> ByPipeline:
    for number in reversed(range(len(fails.planned.steps))):
        rest = (*fails.planned.steps[:number], *fails.planned.steps[number + 1 :])
        shorter = Plan(rest, ", ".join(step.text for step in rest))
        candidate = fails.on(shorter, fails.symptom)
        if rest and candidate(reduction.model, reduction.samples):
            fails = candidate
    return fails
