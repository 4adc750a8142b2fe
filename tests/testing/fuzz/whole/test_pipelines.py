"""Random pipelines: any passes in any order, all of which can be planned."""

from __future__ import annotations

from collections import Counter

from onnx_passes.core.plan import plan
from onnx_passes.testing.fuzz.draws import Draws, RandomSource
from onnx_passes.testing.fuzz.whole.pipelines import Pipeline, random_pipeline
from onnx_passes.verify.comparison.evidence import DEFAULT, promise_of


def pipelines(count: int = 120) -> list[Pipeline]:
    return [random_pipeline(Draws(RandomSource(seed))) for seed in range(count)]


def test_every_pipeline_can_be_planned():
    for pipeline in pipelines():
        assert list(plan(str(pipeline)).walk())


def test_most_passes_take_part():
    used = Counter(step.name for pipeline in pipelines() for _, step in plan(str(pipeline)).walk())
    assert len(used) > 150
    assert {"eliminate-reshape", "fuse-batchnorm", "streamline", "shape-inference", "infer-thresholds"} <= set(used)


def test_passes_that_change_the_interface_or_the_type_do_not():
    used = {step.name for pipeline in pipelines() for _, step in plan(str(pipeline)).walk()}
    assert not used & {"rename-interface", "drop-outputs", "extract", "convert-float16", "export-hls4ml"}


def test_some_promise_equality_and_some_are_shuffled_or_repeated():
    drawn = pipelines()
    exact = [
        p for p in drawn if promise_of([s.pass_ for _, s in plan(str(p)).walk() if not s.children], DEFAULT).is_equality
    ]
    assert len(exact) > 20
    assert len({pipeline.seed for pipeline in drawn}) > 30
    assert any("fixpoint{" in str(pipeline) for pipeline in drawn)
    assert any("=true" in str(pipeline) for pipeline in drawn)


def test_same_seed_draws_the_same():
    assert pipelines(20) == pipelines(20)
