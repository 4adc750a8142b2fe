"""Reduce the failure of a pipeline: find the pass, reduce the model before it, and leave out what is not needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

import onnx_passes.passes  # noqa: F401  # pyright: ignore[reportUnusedImport] - teaches the registry foreign rules
from onnx_passes.core.compose import PassLike
from onnx_passes.core.errors import OnnxPassesError, UsageError
from onnx_passes.core.instruments import Instrument
from onnx_passes.core.manager import Manager
from onnx_passes.core.plan import Plan, Step, Why, plan
from onnx_passes.core.records import StepRecord
from onnx_passes.debug.reduce.interesting import ByPipeline, Observation, Symptom, fails_by_pipeline, usable_samples
from onnx_passes.debug.reduce.reducer import Reduction
from onnx_passes.debug.reduce.reducer import reduce as reduce_model
from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.load import Source, load
from onnx_passes.verify.run.execute import Executor, Sample
from onnx_passes.verify.verification import Limits


@dataclass(frozen=True)
class ReducedFailure:
    """The reduced model, the passes that still fail on it, and how they do."""

    reduction: Reduction
    pipeline: str
    symptom: Symptom
    error: Exception

    @property
    def model(self) -> ir.Model:
        """Return what is left of the model."""
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
    return reduce_failure(planned, start, samples, limits=limits, most_seconds=most_seconds)


def reduce_failure(
    planned: Plan,
    model: ir.Model,
    samples: Sequence[Sample],
    *,
    limits: Limits | None = None,
    executor: Executor | None = None,
    most_seconds: float = 300.0,
) -> ReducedFailure:
    """Reduce model, samples and pipeline; raises UsageError if the pipeline does not fail."""
    executor = executor or Executor()
    seen = fails_by_pipeline(planned, limits, executor=executor).observe(model, samples)
    if seen is None:
        raise UsageError(
            f"there is no failure to reduce: '{planned.pipeline}' does not fail on this model",
            hint="check passes, inputs and tolerance",
        )
    start, fails = _narrowed(planned, model, samples, seen, limits, executor)
    reduction = reduce_model(start, samples, fails, executor=executor, most_seconds=most_seconds)
    fails = _with_fewer_steps(fails, reduction)
    last = fails_by_pipeline(fails.planned, limits, executor=executor).observe(reduction.model, reduction.samples)
    return ReducedFailure(reduction, fails.planned.pipeline, seen.symptom, (last or seen).error)


def _narrowed(
    planned: Plan,
    model: ir.Model,
    samples: Sequence[Sample],
    seen: Observation,
    limits: Limits | None,
    executor: Executor,
) -> tuple[ir.Model, ByPipeline]:
    """Take the pass that fails alone, on the model as it was before, if it fails there, too."""
    culprit = next((s for _, s in planned.walk() if s.text == seen.symptom.step and not s.children), None)
    before = _model_before(planned, model, seen.number) if culprit is not None else None
    if culprit is not None and before is not None:
        alone = Plan((Step(culprit.pass_, Why("requested")),), culprit.text)
        fails = fails_by_pipeline(alone, limits, executor=executor, symptom=seen.symptom)
        if fails(before, list(samples)):
            return before, fails
    return model, fails_by_pipeline(planned, limits, executor=executor, symptom=seen.symptom)


class _Before(Instrument):
    """Keeps the model before a step, and lets nothing run from there on."""

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
        candidate = fails_by_pipeline(shorter, fails.limits, executor=fails.executor, symptom=fails.symptom)
        if rest and candidate(reduction.model, reduction.samples):
            fails = candidate
    return fails
