"""Two models on the same data."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.check.original import Original
from onnx_passes.check.settings import Settings
from onnx_passes.check.verdict import Verdict, check
from onnx_passes.core.claims import Claim
from tests.passes.tools import model_of

PICKY = """g (float[N,4] x) => (float[2,2] y) <int64[2] shape = {2, 2}> {
    r = Reshape (x, shape) y = OPERATOR (r)
}"""


def compare_models(old: ir.Model, new: ir.Model) -> Verdict:
    return check(Claim("equality"), old, new)


def picky(operator: str):
    return model_of(PICKY.replace("OPERATOR", operator))


def test_models_that_compute_the_same_are_equal():
    assert compare_models(picky("Neg"), picky("Neg")).equal
    assert not compare_models(picky("Neg"), picky("Relu")).equal


def test_generated_samples_that_the_first_model_cannot_take_are_left_out():
    assert len(compare_models(picky("Neg"), picky("Neg")).results) == 1


def test_without_any_sample_nothing_is_verified():
    never = PICKY.replace("{2, 2}", "{2, 7}").replace("[2,2] y", "[2,7] y").replace("OPERATOR", "Neg")
    verdict = compare_models(model_of(never), model_of(never))
    assert (verdict.level, verdict.holds, verdict.is_violated) == ("unverified", False, False)
    assert "failed on the data" in verdict.to_text()


NOISE = """<ir_version: 10, opset_import: ["": 21, "local": 1]>
g (float[4] x) => (float[4] y) { y = local.outer(x) }
<domain: "local", opset_import: ["": 21, "local": 1]>
outer (x) => (y) { y = local.noise(x) }
<domain: "local", opset_import: ["": 21]>
noise (x) => (y) { r = RandomNormalLike(x) y = Add(x, r) }"""


def test_a_model_whose_functions_draw_random_numbers_gets_no_special_samples():
    drawing, plain = ir.from_onnx_text(NOISE), ir.from_onnx_text(NOISE.replace("RandomNormalLike(x)", "Abs(x)"))
    baselines = [Original(model, Settings()).established() for model in (drawing, plain)]
    specials = [None if found is None else found.specials for found in baselines]
    assert [bool(found and found.samples) for found in specials] == [False, True]
