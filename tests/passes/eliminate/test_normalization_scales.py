from __future__ import annotations

import pytest

import onnx_passes
from tests.passes.fuse.tools import reasons
from tests.passes.tools import model_of, operators

RMS = "p = Pow (x, two) v = ReduceMean <axes = [-1]> (p) e = Add (v, eps) q = Sqrt (e) "
CONSTANTS = "float[4] ones = {1, 1, 1, 1}, float one = {1}, float two = {2}, float eps = {0.001}"


@pytest.mark.parametrize(
    "body",
    ["r = Div (x, q) y = Mul (r, ones)", "i = Div (one, q) r = Mul (x, i) y = Mul (ones, r)",
     "i = Reciprocal (q) r = Mul (i, x) y = Mul (r, ones)"],
)  # fmt: skip
def test_scale_of_ones_of_a_normalization_stays(body: str):
    text = f"g (float[N,4] x) => (float[N,4] y) <{CONSTANTS}> {{ {RMS}{body} }}"
    assert "by its scale" in reasons("eliminate-neutral-element", text, opset=13)
    assert operators(onnx_passes.apply(model_of(text, opset=13), "simplify").model.graph)[-1] == "Mul"


def test_other_ones_go():
    text = (
        f"g (float[N,4] x) => (float[N,4] y) <{CONSTANTS}> {{ {RMS}r = Div (x, q) z = Mul (r, one) y = Mul (z, ones) }}"
    )
    result = onnx_passes.apply(model_of(text, opset=13), "simplify")
    assert operators(result.model.graph).count("Mul") == 1


GELU = """g (float[1,2,4,4] x, float[1,2,4,4] z) => (float[1,2,4,4] y) <float half = {0.5}, float one = {1},
    float root = {1.4142135}, float[2,2,1,1] w = {1,2,3,4}> {
    s = Div (x, root) e = FUNCTION (s) g = Add (e, one) m = Mul (x, g) h = Mul (m, half) y = Conv (h, w) }"""


@pytest.mark.parametrize("function", ["Erf", "Tanh"])
def test_half_of_gelu_stays_out_of_weights(function: str):
    assert "half of a Gelu" in reasons("fuse-scale", GELU.replace("FUNCTION", function), opset=17)


def test_other_halves_go_into_weights():
    result = onnx_passes.apply(model_of(GELU.replace("FUNCTION", "Sigmoid"), opset=17), "fuse-scale")
    assert operators(result.model.graph).count("Mul") == 1


def test_gelu_before_a_convolution_is_fused():
    result = onnx_passes.apply(model_of(GELU.replace("FUNCTION", "Erf"), opset=20), "simplify")
    assert operators(result.model.graph) == ["Gelu", "Conv"]
