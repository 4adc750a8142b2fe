"""The judge of pipelines: faults are found and blamed, what is promised is not exceeded, doubts are no findings."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnx_passes.core.imports import import_user_modules
from onnx_passes.core.registry import REGISTRY
from onnx_passes.testing.fuzz.case import Case
from onnx_passes.testing.fuzz.effort import Effort
from onnx_passes.testing.fuzz.generate import case_of_model
from onnx_passes.testing.fuzz.judge import CaseVerdict
from onnx_passes.testing.fuzz.whole.judging import DISPUTED, PipelineJudge
from onnx_passes.testing.fuzz.whole.models import Family, random_case
from onnx_passes.testing.fuzz.whole.pipelines import Pipeline
from onnx_passes.testing.fuzz.whole.trial import ModelTrial, ModelWorker, finding_of, reduced
from onnx_passes.verify.run.execute import Executor
from tests.passes.tools import model_of

PLANTED = str(Path(__file__).parents[1] / "planted_rules.py")


@pytest.fixture(scope="module")
def planted() -> Iterator[None]:
    import_user_modules([PLANTED])
    yield
    sys.modules.pop("planted_rules")
    for key, entry in list(REGISTRY._entries.items()):
        if entry.module == "planted_rules":
            del REGISTRY._entries[key]
            REGISTRY._classes.pop(entry.name, None)


def case_of(text: str, **given: np.ndarray) -> Case:
    plain = case_of_model(ir.to_proto(model_of(text)), seed=0)
    return Case(plain.model, plain.inputs, given=given or None)


def judged(text: str, pipeline: str, *, blame: bool = False, **given: np.ndarray) -> CaseVerdict:
    return PipelineJudge(Executor())(case_of(text, **given), pipeline, blame=blame)


def test_a_fault_is_found_and_blamed_on_its_rule(planted: None):
    text = "g (float[2] x, float[2] y) => (float[2] z) {a = Neg (x) b = Neg (a) c = Add (b, y) z = Relu (c)}"
    verdict = judged(text, "shuffle{seed=1}(cleanup, eliminate, planted-subtraction)", blame=True)
    assert (verdict.outcome, verdict.kind, verdict.rule) == (
        "finding",
        "WRONG",
        "planted-subtraction/PlantedSubtraction",
    )
    assert "Sub" in verdict.after


def test_a_lost_shape_is_found(planted: None):
    text = "g (float x, float[2] y) => (float[2] z) {a = Max (x, y) z = Min (x, a)}"
    assert judged(text, "planted-loss").kind == "SHAPE"


def test_faults_are_found_in_random_models(planted: None):
    judge = PipelineJudge(Executor())
    kinds = [judge(random_case("float", seed), "planted-subtraction").kind for seed in range(40)]
    assert kinds.count("WRONG") >= 3


def test_what_is_right_is_fine_or_untouched():
    text = "g (float[2] x) => (float[2] y) {a = Neg (x) y = Neg (a)}"
    assert judged(text, "eliminate").outcome == "fine"
    assert judged(text, "fuse-batchnorm").outcome == "no match"


def test_a_pass_that_refuses_a_model_is_no_finding():
    verdict = judged("g (float[2] x) => (float[2] y) {y = Relu (x)}", "only{nodes=[nowhere]}(eliminate)")
    assert (verdict.outcome, bool(verdict.message)) == ("no match", True)


def test_models_on_which_engines_do_not_agree_are_left_out():
    # The reference evaluator takes the largest of all channels.
    verdict = judged("g (float[1, 2, 3] x) => (float[1, 2, 1] y) {y = GlobalMaxPool (x)}", "eliminate")
    assert (verdict.outcome, verdict.message) == ("skipped", DISPUTED)


def test_rounding_that_a_step_makes_large_is_excused():
    text = "g (float[1] x) => (float[1] y) <float c = {41}> {q = Div (x, c) y = Floor (q)}"
    x = np.array([41], np.float32)
    assert np.floor(x * (np.float32(1) / np.float32(41))) != np.floor(x / np.float32(41))
    assert judged(text, "convert-div-rounding", x=x).outcome == "fine"


def test_defaults_that_a_pipeline_drops_are_not_missed():
    model = model_of("g (float[2] x, float[2] c) => (float[2] y) <float[2] c = {1, 2}> {y = Add (x, c)}")
    case = case_of_model(ir.to_proto(model), seed=0)
    judge = PipelineJudge(Executor())
    assert judge(case, "streamline").outcome in ("fine", "no match")
    assert judge(case, "simplify").outcome in ("fine", "no match")


def test_model_and_pipeline_are_reduced(planted: None):
    text = """g (float[2,3] x, float[2,3] y) => (float[2,3] z, float[3,2] t) <float[3] c = {1, 2, 3}> {
        a = Neg (x) b = Mul (a, c) s = Add (b, y) d = Sigmoid (s) z = Relu (d) t = Transpose (y)
    }"""
    with ModelWorker() as worker:
        case, pipeline = case_of(text), Pipeline(("cleanup", "planted", "eliminate"), 3)
        verdict = worker.judge(case, str(pipeline))
        smaller, passes = reduced(case, pipeline, verdict, worker.judge, Effort.shrink_seconds)
        finding = finding_of(smaller, str(passes), worker.judge(smaller, str(passes), blame=True))
    assert str(passes) == "planted-subtraction"
    assert [node.op_type for node in onnx.ModelProto.FromString(smaller.model).graph.node] == ["Add"]
    assert finding.rule == "planted-subtraction/PlantedSubtraction"
    assert "pipeline: planted-subtraction" in finding.describe()


@pytest.mark.parametrize(("family", "count"), [("float", 60), ("quantized", 20)])
def test_the_collection_keeps_its_promises(family: Family, count: int):
    with ModelWorker() as worker:
        trial = ModelTrial(family, worker, count, 0, Effort())
        report = trial.run()
    assert report.ok, report.describe()
    assert report.matches > 0.4 * count
    assert report.disputed < 0.1 * count


def test_a_function_that_draws_random_numbers_is_not_judged():
    body = "{ a = local.Noise (x) y = Neg (a) }"
    text = f"""g (float[2] x) => (float[2] y) {body}
    <domain: "local", opset_import: ["": 18]> Noise (u) => (v) {{ w = RandomNormalLike (u) v = Add (u, w) }}"""
    plain = case_of_model(ir.to_proto(model_of(text, domains='"local" : 1')), seed=0)
    verdict = PipelineJudge(Executor())(Case(plain.model, plain.inputs), "inline-functions")
    assert (verdict.outcome, verdict.message) == ("skipped", "no data fit")
