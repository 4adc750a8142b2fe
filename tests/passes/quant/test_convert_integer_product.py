from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onnx_passes
from tests.passes.quant.tools import applied, assert_same_bits, model_of, reasons
from tests.passes.tools import operators, run

HEAD = "g (uint8[M,{0}] a) => (int32[M,2] y) <{1}> {{ y = MatMulInteger (a, b{2}) }}"


def constant(kind: str, shape: str, numbers: np.ndarray, name: str = "b") -> str:
    return f"{kind}[{shape}] {name} = {{{', '.join(map(str, numbers.ravel()))}}}"


@settings(max_examples=8, deadline=None)
@given(st.integers(1, 40), st.integers(0, 255), st.integers(-128, 127), st.integers(0, 2**32 - 1))
def test_products_are_exact(terms: int, az: int, bz: int, seed: int):
    random = np.random.default_rng(seed)
    matrix = constant("int8", f"{terms},2", random.integers(-64, 65, (terms, 2)))
    zeros = f"uint8 az = {{{az}}}, int8 bz = {{{bz}}}"
    text = HEAD.format(terms, f"{matrix}, {zeros}", ", az, bz")
    model = applied("convert-integer-product", model_of(text))
    assert operators(model.graph) == ["DequantizeLinear", "DequantizeLinear", "MatMul", "Cast"]
    a = random.integers(0, 256, (3, terms)).astype(np.uint8)
    assert_same_bits(run(model, {"a": a}), run(model_of(text), {"a": a}))


def test_zero_points_of_columns():
    matrix = constant("int8", "3,2", np.arange(6))
    text = HEAD.format(3, f"{matrix}, uint8 az = {{3}}, int8[2] bz = {{1, -2}}", ", az, bz")
    model = applied("convert-integer-product", model_of(text))
    a = np.arange(6, dtype=np.uint8).reshape(2, 3)
    assert_same_bits(run(model, {"a": a}), run(model_of(text), {"a": a}))


def test_convolutions_are_exact_where_others_saturate():
    numbers = np.random.default_rng(0).integers(-128, 128, (4, 8, 3, 3))
    text = (
        f"g (uint8[1,8,6,6] x) => (int32[1,4,3,3] y) <{constant('int8', '4,8,3,3', numbers, 'w')}, uint8 z = {{9}}>"
        "{ y = ConvInteger <strides = [2, 2], pads = [1, 1, 0, 0]> (x, w, z) }"
    )
    model = applied("convert-integer-product", model_of(text))
    x = np.random.default_rng(1).integers(0, 256, (1, 8, 6, 6)).astype(np.uint8)
    assert_same_bits(run(model, {"x": x}), run(model_of(text), {"x": x}))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (HEAD.format(600, constant("uint8", "600,2", np.full((600, 2), 255)), ""), "2^24"),
        (HEAD.format(2, constant("int8", "2,2", np.full((2, 2), 127)), ""), "depends on the machine"),
        (
            "g (int8[1,1,4,5] x, uint8[2,1,1,2] w) => (int32[1,2,4,4] y) { y = ConvInteger (x, w) }",
            "depends on the machine",
        ),
        ("g (uint8[M,K] a, uint8[K,N] b) => (int32[M,N] y) { y = MatMulInteger (a, b) }", "2^24"),
        (
            "g (float[2,3] x) => (int32[2,1] y)"
            " <uint8[3,1] b = {1, 2, 3}, float s = {0.03}, uint8 z = {9}, int64[2] t = {2, 3}>"
            "{ q = QuantizeLinear (x, s, z) r = Reshape (q, t) y = MatMulInteger (r, b, z) }",
            "has a scale other than 1",
        ),
        ("g (int8[2,0] a, int8[0,2] b) => (int32[2,2] y) { y = MatMulInteger (a, b) }", "contracted axis is empty"),
    ],
)
def test_refuses(text: str, reason: str):
    assert reason in reasons("convert-integer-product", model_of(text))


def test_sizes_alone_may_tell():
    text = "g (uint8[M,200] a, uint8[200,N] b) => (int32[M,N] y) { y = MatMulInteger (a, b) }"
    assert operators(applied("convert-integer-product", model_of(text)).graph)[-1] == "Cast"


def test_integers_of_a_quantizer_stay_integers():
    """A quantizer with a scale and ConvInteger behind it stay as they are, and count as integer."""
    numbers = np.random.default_rng(0).integers(0, 256, (2, 3, 2, 2))
    text = (
        "g (float[1,3,4,4] x) => (float[1,2,3,3] y)"
        f" <float s = {{0.03}}, uint8 z = {{100}}, uint8 zw = {{131}}, float t = {{0.2}},"
        f" {constant('uint8', '2,3,2,2', numbers, 'w')}>"
        "{ q = QuantizeLinear (x, s, z) n = ConvInteger (q, w, z, zw) f = Cast <to = 1> (n) y = Mul (f, t) }"
    )
    result = onnx_passes.apply(model_of(text), "streamline, check-streamlined")
    assert operators(result.model.graph) == ["QuantizeLinear", "ConvInteger", "Cast", "Mul"]
    assert result["check-streamlined"].integer_macs == 216


def test_a_zero_point_without_scale_holds_integers():
    matrix = constant("uint8", "3,2", np.arange(6))
    text = HEAD.format(3, f"{matrix}, uint8 az = {{3}}", ", az")
    result = onnx_passes.apply(model_of(text), "streamline, check-streamlined")
    assert "MatMulInteger" not in operators(result.model.graph)
    assert result["check-streamlined"].fraction == 1
