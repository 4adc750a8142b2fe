from __future__ import annotations

import pytest

import onnx_passes
from onnx_passes.core.evidence import Finding, reaches
from tests.passes.tools import check, model_of, operators

LAYER = """g (float[B,S,32] x, float[S,8] angles, float[B,1,S,S] mask) => (float[B,S,32] y) <float two = {2},
    float[32,32] wq = {WEIGHTS}, float[32] scale = {SCALE},
    float small = {1e-5}, int64[1] last = {-1}, float root = {2.828427},
    int64[4] split = {0,0,4,8}, int64[3] merge = {0,0,32}, int64[1] zero = {0}, int64[1] four = {4},
    int64[1] eight = {8}, int64[1] one = {1}> {
        square = Pow (x, two) mean = ReduceMean <axes = [-1]> (square) sum = Add (mean, small) r = Sqrt (sum)
        n = Div (x, r) h = Mul (n, scale)
        q2 = MatMul (h, wq) q3 = Reshape (q2, split) q = Transpose <perm = [0,2,1,3]> (q3)
        k2 = MatMul (h, wq) k3 = Reshape (k2, split) k = Transpose <perm = [0,2,1,3]> (k3)
        v3 = Reshape (h, split) v = Transpose <perm = [0,2,1,3]> (v3)
        c = Cos (angles) s = Sin (angles)
        q_second = Slice (q, four, eight, last) q_first = Slice (q, zero, four, last)
        q_minus = Neg (q_second) q_turned = Concat <axis = -1> (q_minus, q_first)
        q_cos = Mul (q, c) q_sin = Mul (q_turned, s) qr = Add (q_cos, q_sin)
        t = Transpose <perm = [0,1,3,2]> (k) p = MatMul (qr, t) d = Div (p, root) m = Add (d, mask)
        w = Softmax <axis = -1> (m) o = MatMul (w, v) o3 = Transpose <perm = [0,2,1,3]> (o) y = Reshape (o3, merge)
    }"""
WEIGHTS = ",".join(str((i * 7 % 13 - 6) / 20) for i in range(1024))
LAYER = LAYER.replace("WEIGHTS", WEIGHTS).replace("SCALE", ",".join(["0.5"] * 32))


@pytest.mark.parametrize(("pipeline", "opset"), [("modernize", 23), ("modernize{convert-opset.version=24}", 24)])
def test_old_models_get_operators_of_today(pipeline: str, opset: int):
    result = onnx_passes.apply(model_of(LAYER, opset=17), pipeline)
    check(result.model)
    left = operators(result.model.graph)
    assert result.model.opset_imports[""] == opset
    assert left.count("Attention") == 1
    assert left.count("RMSNormalization") == 1
    assert not {"Softmax", "Div", "Sqrt", "Pow"} & set(left)
    assert reaches(result.record.level, Finding("tolerance", "sampled"))


def test_angles_of_halves_that_may_differ_are_no_rotation():
    """The angles of a whole head are an input: nothing says that both halves have the same."""
    result = onnx_passes.apply(model_of(LAYER, opset=17), "modernize")
    assert "RotaryEmbedding" not in operators(result.model.graph)
    assert "both elements of a pair" in str([rule.refused for step in result.steps for rule in step.rules])


def test_nothing_is_left_to_do_the_second_time():
    once = onnx_passes.apply(model_of(LAYER, opset=17), "modernize").model
    before = operators(once.graph)
    assert operators(onnx_passes.apply(once, "modernize").model.graph) == before


def test_a_newer_opset_stays():
    text = "g (float[2,3] x) => (float[2,3] y) { y = Relu (x) }"
    assert onnx_passes.apply(model_of(text, opset=24, ir_version=11), "modernize").model.opset_imports[""] == 24
