"""Reduce a model and a pipeline to the smallest that still fail in the same way."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx
import onnx_ir as ir

from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.core.plan import plan
from onnx_passes.debug.reduce.reducer import minimise, reduce
from onnx_passes.testing.fuzz.case import Case
from onnx_passes.testing.fuzz.feeds import feeds_of
from onnx_passes.testing.fuzz.judge import Verdict
from onnx_passes.testing.fuzz.whole.pipelines import Pipeline
from onnx_passes.verify.run.execute import ExecutionError, Executor, Sample

Judge = Callable[[Case, str], Verdict]
_BY_PLAN = ("needed", "follows")
"""Reason of a pass in a plan without a pipeline."""
_ROUNDS = 2
"""Number of rounds to which a repeated sequence is unrolled."""


def reduced(case: Case, pipeline: Pipeline, verdict: Verdict, judge: Judge, seconds: float) -> tuple[Case, Pipeline]:
    """Remove passes, then parts of the model, while the judge finds the same kind of failure."""

    def fails(candidate: Case, passes: Pipeline) -> bool:
        found = judge(candidate, str(passes))
        return found.outcome == "finding" and found.kind == verdict.kind

    passes = _fewer_passes(pipeline, lambda shorter: fails(case, shorter))
    sample = _telling(case, verdict)
    if sample is None:
        return case, passes
    model = ir.from_proto(onnx.ModelProto.FromString(case.model))
    try:
        reduction = reduce(
            model,
            [sample],
            lambda smaller, samples: bool(samples) and fails(_given(smaller, samples[0]), passes),
            executor=Executor(),
            most_seconds=seconds,
        )
    except OnnxPassesError:
        # The failure needs other data as well.
        return case, passes
    smaller = _given(reduction.model, reduction.samples[0])
    return smaller, _fewer_passes(passes, lambda shorter: fails(smaller, shorter))


def _fewer_passes(pipeline: Pipeline, fails: Callable[[Pipeline], bool]) -> Pipeline:
    """Remove what the failure does not need: the order of nodes, groups around passes, passes."""
    if pipeline.seed is not None and fails(Pipeline(pipeline.items)):
        pipeline = Pipeline(pipeline.items)
    pipeline = _some_of(pipeline, fails)
    leaves = [
        step.text for _, step in plan(str(pipeline)).walk() if not step.children and step.why.reason not in _BY_PLAN
    ]
    spelt = Pipeline(tuple(leaves) * _ROUNDS, pipeline.seed)
    if leaves and tuple(leaves) != pipeline.items and fails(spelt):
        pipeline = _some_of(spelt, fails)
    return pipeline


def _some_of(pipeline: Pipeline, fails: Callable[[Pipeline], bool]) -> Pipeline:
    def chosen(places: Sequence[int]) -> Pipeline:
        return Pipeline(tuple(pipeline.items[place] for place in places), pipeline.seed)

    return chosen(minimise(list(range(len(pipeline.items))), lambda places: fails(chosen(places))))


def _telling(case: Case, verdict: Verdict) -> Sample | None:
    """Return the data that showed the failure, or else data that the model accepts."""
    feeds = {feed.name: feed.arrays for feed in feeds_of(case)}
    if verdict.feed in feeds:
        return feeds[verdict.feed]
    try:
        ready = Executor().prepare(ir.from_proto(onnx.ModelProto.FromString(case.model)))
    except OnnxPassesError:
        return None
    for arrays in feeds.values():
        try:
            ready.run(arrays)
        except ExecutionError:
            continue
        return arrays
    return None


def _given(model: ir.Model, sample: Sample) -> Case:
    return Case(ir.to_proto(model).SerializeToString(), given=dict(sample))
