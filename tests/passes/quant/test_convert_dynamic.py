from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onnx_passes
from tests.passes.quant.tools import applied, assert_same_bits, model_of, reasons
from tests.passes.tools import operators, run

WEIGHTS = "int8[3,2] b = {1, -2, 3, -4, 60, -60}, float[2] bs = {0.1, 0.3}, int8[2] bz = {1, 0}, float[2] c = {1, -1}"
QUANTIZER = "g (float[N] x) => (uint8[N] q, float s, uint8 z) { q, s, z = DynamicQuantizeLinear (x) }"
FLOATS = st.floats(-(2.0**100), 2.0**100, width=32)


def test_products_that_quantize_as_they_go():
    call = "y = com.microsoft.DynamicQuantizeMatMul (a, b, bs, bz, c)"
    text = f"g (float[2,3] a) => (float[2,2] y) <{WEIGHTS}> {{ {call} }}"
    model = applied("convert-dynamic-quantization", model_of(text))
    integers = ["DynamicQuantizeLinear", "MatMulInteger", "Cast", "Mul", "Mul", "Add"]
    assert sorted(operators(model.graph)) == sorted(integers)
    a = np.array([[0.5, -3, 3], [9, 8, 1e-3]], np.float32)
    assert np.allclose(run(model, {"a": a})[0], run(model_of(text), {"a": a})[0], rtol=1e-6, atol=1e-5)
    assert sorted(operators(onnx_passes.apply(model_of(text), "import-quantized").model.graph)) == sorted(integers)


def test_streamlining_keeps_products_of_integers():
    """Scales that are computed never become constant: what was a product of integers stays one."""
    text = """
    g (float[3,2] x, uint8[2,3] b, float[1] bs, uint8[1] bz) => (float[3,3] y) {
        a, s, z = DynamicQuantizeLinear (x)
        i = MatMulInteger (a, b, z, bz)
        m = Mul (s, bs)
        f = Cast <to = 1> (i)
        y = Mul (f, m)
    }
    """
    result = onnx_passes.apply(model_of(text), "streamline")
    assert result["check-streamlined"].fraction == 1
    assert "MatMulInteger" in operators(result.model.graph)
    assert "a zero point is computed" in reasons("convert-integer-product", model_of(text))


def test_products_that_return_floats():
    call = "y = com.microsoft.MatMulIntegerToFloat (a, b, as, bs, az, bz)"
    text = f"g (uint8[2,3] a) => (float[2,2] y) <float as = {{0.1}}, uint8 az = {{3}}, {WEIGHTS}> {{ {call} }}"
    model = applied("convert-dynamic-quantization", model_of(text))
    assert operators(model.graph) == ["DequantizeLinear", "DequantizeLinear", "MatMul"]
    a = np.array([[0, 255, 3], [9, 8, 7]], np.uint8)
    assert np.allclose(run(model, {"a": a})[0], run(model_of(text), {"a": a})[0], rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("computed", ["float", "uint8"])
def test_products_of_computed_scales_stay_in_integers(computed: str):
    inputs = "uint8[2,3] a, " + {"float": "float as", "uint8": "uint8 az"}[computed]
    held = {"float": "uint8 az = {3}", "uint8": "float as = {0.25}"}[computed]
    call = "y = com.microsoft.MatMulIntegerToFloat (a, b, as, bs, az, bz)"
    text = f"g ({inputs}) => (float[2,2] y) <{held}, {WEIGHTS}> {{ {call} }}"
    model = applied("convert-dynamic-quantization", model_of(text))
    assert sorted(operators(model.graph)) == ["Cast", "MatMulInteger", "Mul", "Mul"]
    feeds = {"a": np.array([[0, 255, 3], [9, 8, 7]], np.uint8)}
    feeds |= {"float": {"as": np.float32(0.3)}, "uint8": {"az": np.uint8(7)}}[computed]
    feeds = {name: np.asarray(array) for name, array in feeds.items()}
    assert np.allclose(run(model, feeds)[0], run(model_of(text), feeds)[0], rtol=1e-6, atol=1e-5)


def test_refuses_sums_that_saturate_on_some_machines():
    weights = WEIGHTS.replace("60", "127")
    call = "y = com.microsoft.MatMulIntegerToFloat (a, b, as, bs, az, bz)"
    text = f"g (uint8[2,3] a) => (float[2,2] y) <float as = {{0.1}}, uint8 az = {{3}}, {weights}> {{ {call} }}"
    assert "depends on the machine" in reasons("convert-dynamic-quantization", model_of(text))


@settings(max_examples=30, deadline=None)
@given(st.lists(FLOATS, min_size=1, max_size=20))
def test_scale_and_zero_point_are_computed_alike(numbers: list[float]):
    model = onnx_passes.apply(model_of(QUANTIZER), "convert-dynamic-quantizer", verify=False).model
    x = np.array(numbers, np.float32)
    assert_same_bits(run(model, {"x": x}), run(model_of(QUANTIZER), {"x": x}))


@pytest.mark.parametrize("numbers", [[0.0], [-0.0, 0.0], [1e-45, 0.0], [-1e-45], [5.0], [-5.0], [127.5, -127.5]])
def test_special_ranges(numbers: list[float]):
    model = applied("convert-dynamic-quantizer", model_of(QUANTIZER))
    assert operators(model.graph)[-1] == "QuantizeLinear"
    x = np.array(numbers, np.float32)
    assert_same_bits(run(model, {"x": x}), run(model_of(QUANTIZER), {"x": x}))
