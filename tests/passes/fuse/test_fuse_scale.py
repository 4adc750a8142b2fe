from __future__ import annotations

import numpy as np
import pytest

import onnx_passes
from onnx_passes.graph import annotations
from onnx_passes.graph.constants import constant
from tests.passes.fuse.tools import applied, outcome, reasons
from tests.passes.tools import model_of, value


def conv(inner: str, constants: str = "float[2,1,1] c = {2,-4}") -> str:
    weights = "float[2,2,1,1] w = {1,2,3,4}"
    return f"g (float[1,2,4,4] x) => (float[?,?,?,?] z) <{weights}, float[2] b = {{8,16}}, {constants}> {{ {inner} }}"


@pytest.mark.parametrize(
    ("inner", "weights", "bias"),
    [
        ("y = Conv (x, w, b) z = Mul (c, y)", [2, 4, -12, -16], [16, -64]),
        ("y = Conv (x, w, b) z = Div (y, c)", [0.5, 1, -0.75, -1], [4, -4]),
        ("y = ConvTranspose (x, w, b) z = Mul (c, y)", [2, -8, 6, -16], [16, -64]),
        ("t = Mul (x, c) z = Conv <pads = [1,1,1,1]> (t, w, b)", [2, -8, 6, -16], [8, 16]),
    ],
)
def test_the_factor_goes_into_the_weights(inner: str, weights: list[float], bias: list[float]):
    (node,) = applied("fuse-scale", conv(inner)).graph
    found = [constant(value) for value in node.inputs[1:]]
    assert [array.ravel().tolist() for array in found if array is not None] == [weights, bias]


def test_groups_of_a_transposed_convolution():
    text = """g (float[1,4,2] x) => (float[1,4,2] z)
        <float[4,2,1] w = {1,2,3,4,5,6,7,8}, float[4,1] c = {1,10,100,1000}>
        { y = ConvTranspose <group = 2> (x, w) z = Mul (y, c) }"""
    (node,) = applied("fuse-scale", text).graph
    found = constant(node.inputs[1])
    assert found is not None
    assert found.ravel().tolist() == [1, 20, 3, 40, 500, 6000, 700, 8000]


def test_columns_of_a_product():
    text = """g (float[2,N,2] x) => (float[2,N,3] z) <float[2,3] w = {1,2,3,4,5,6}, float[1,1,3] c = {1,2,3}>
        { y = MatMul (x, w) z = Mul (y, c) }"""
    assert outcome("fuse-scale", text) == ["MatMul"]


def test_a_product_keeps_its_shape():
    text = """g (float[2] x) => (float[1,3] z) <float[2,3] w = {1,2,3,4,5,6}, float[1,3] c = {1,2,3}>
        { y = MatMul (x, w) z = Mul (y, c) }"""
    assert "each channel" in reasons("fuse-scale", text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (conv("y = Conv (x, w) z = Div (y, c)", "float[2,1,1] c = {1,0}"), "factor is not constant and finite"),
        (conv("y = Conv (x, w) z = Mul (y, c)", "float[2,1,1] c = {1,inf}"), "factor is not constant and finite"),
        (conv("y = Conv (x, w) z = Mul (y, c)", "float[1,4] c = {1,2,3,4}"), "each channel"),
        (conv("y = Conv (x, w) z = Mul (y, c)", "float[1] c = {3e38}"), "would not be finite"),
    ],
)
def test_refuses(text: str, reason: str):
    assert reason in reasons("fuse-scale", text)


def test_integers_stay():
    text = """g (int32[2,2] x) => (int32[2,2] z) <int32[2,2] w = {1,2,3,4}, int32 c = {3}>
        { y = MatMul (x, w) z = Mul (y, c) }"""
    assert "not constant and finite" in reasons("fuse-scale", text)


def test_weights_are_computed_in_double_precision():
    model = applied("fuse-scale", conv("y = Conv (x, w) z = Div (y, c)", "float[2,1,1] c = {3,7}"))
    found = constant(next(iter(model.graph)).inputs[1])
    assert found is not None
    expected = np.array([1 / 3, 2 / 3, 3 / 7, 4 / 7]).astype(np.float32)
    np.testing.assert_array_max_ulp(found.ravel(), expected, maxulp=0)


def test_weights_with_a_data_type_stay():
    model = model_of(conv("y = Conv (x, w) z = Mul (y, c)"))
    annotations.set(value(model, "w"), {"finn_datatype": "INT4"})
    (rule, *_) = onnx_passes.apply(model, "fuse-scale").steps[-1].rules
    assert list(rule.refused) == ["the weights are annotated with a data type"]
