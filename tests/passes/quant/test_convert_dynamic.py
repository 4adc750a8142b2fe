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
    assert operators(model.graph) == ["DynamicQuantizeLinear", "DequantizeLinear", "DequantizeLinear", "MatMul", "Add"]
    model = applied("import-quantized", model_of(text))
    assert operators(model.graph) == ["DynamicQuantizeLinear", "DequantizeLinear", "Quant", "MatMul", "Add"]


def test_products_that_return_floats():
    call = "y = com.microsoft.MatMulIntegerToFloat (a, b, as, bs, az, bz)"
    text = f"g (uint8[2,3] a) => (float[2,2] y) <float as = {{0.1}}, uint8 az = {{3}}, {WEIGHTS}> {{ {call} }}"
    model = applied("convert-dynamic-quantization", model_of(text))
    assert operators(model.graph) == ["DequantizeLinear", "DequantizeLinear", "MatMul"]
    a = np.array([[0, 255, 3], [9, 8, 7]], np.uint8)
    assert np.allclose(run(model, {"a": a})[0], run(model_of(text), {"a": a})[0], rtol=1e-6, atol=1e-5)


def test_refuses_sums_that_saturate_on_some_machines():
    weights = WEIGHTS.replace("60", "127")
    text = (
        f"g (float[2,3] a) => (float[2,2] y) <{weights}> {{ y = com.microsoft.DynamicQuantizeMatMul (a, b, bs, bz) }}"
    )
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
