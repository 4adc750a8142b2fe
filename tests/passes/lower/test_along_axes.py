from __future__ import annotations

import pytest

import onnx_passes
from tests.passes.fuse.tools import outcome, reasons
from tests.passes.tools import model_of


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax"])
def test_softmax(operator: str, axis: int):
    text = f"g (float[2,3,4] x) => (float[2,3,4] y) {{ y = {operator} <axis = {axis}> (x) }}"
    found = outcome(f"lower-{operator.lower()}", text)
    assert operator not in found
    assert found[:3] == ["ReduceMax", "Sub", "Exp"]


@pytest.mark.parametrize("shape", ["2,N", "2,0"])
def test_softmax_of_what_may_be_empty_stays(shape: str):
    text = f"g (float[{shape}] x) => (float[{shape}] y) {{ y = Softmax (x) }}"
    assert "may be empty" in reasons("lower-softmax", text)


@pytest.mark.parametrize(
    ("axis", "shape", "bias"), [(-1, "4", ""), (1, "3,4", ", s"), (-2, "3,4", ", s"), (2, "4", ", s")]
)
def test_layer_normalization(axis: int, shape: str, bias: str):
    text = f"""g (float[N,3,4] x, float[{shape}] s) => (float[N,3,4] y)
        {{ y = LayerNormalization <axis = {axis}, epsilon = 0.1> (x, s{bias}) }}"""
    found = outcome("lower-layernorm", text)
    assert "LayerNormalization" not in found
    assert found.count("ReduceMean") == 2


def test_half_precision_is_computed_in_single_precision():
    text = "g (float16[2,4] x, float16[4] s) => (float16[2,4] y) { y = LayerNormalization (x, s) }"
    assert outcome("lower-layernorm", text).count("Cast") == 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("g (double[2,4] x, double[4] s) => (double[2,4] y) { y = LayerNormalization (x, s) }", "single or half"),
        ("g (float[2,4] x, float[4] s) => (float[2,4] y, float[2,1] m) { y, m = LayerNormalization (x, s) }", "output"),
    ],
)
def test_refuses(text: str, reason: str):
    assert reason in reasons("lower-layernorm", text)


def test_root_mean_square():
    text = "g (float[N,4] x, float[4] s) => (float[N,4] y) { y = RMSNormalization (x, s) }"
    found = outcome("lower-rmsnorm", text, opset=23)
    assert "RMSNormalization" not in found
    assert found.count("ReduceMean") == 1


@pytest.mark.parametrize("opset", [17, 24])
def test_norms_of_nearly_equal_elements_are_no_false_alarm(opset: int):
    text = """g (float[4,8] x) => (float[4,8] y) <float[8] s = {1, 2, 3, 4, 5, 6, 7, 8}, float c = {1000}> {
        far = Mul (x, c) y = LayerNormalization (far, s) }"""
    result = onnx_passes.apply(model_of(text, opset=opset), "lower-layernorm")
    assert result.record.level in ("tolerance:sampled", "reals:proved-here")
    assert "LayerNormalization" not in {node.op_type for node in result.model.graph}
