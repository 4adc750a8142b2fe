from __future__ import annotations

import pytest

from onnx_passes.graph.constants import constant
from tests.passes.fuse.tools import applied, outcome, reasons


def conv(inner: str, constants: str = "float[2,1,1] c = {3,4}", x: str = "1,2,4,4") -> str:
    weights = "float[2,2,2,2] w = {1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8}"
    return f"g (float[{x}] x) => (float[?,?,?,?] z) <{weights}, float[2] b = {{10,20}}, {constants}> {{ {inner} }}"


@pytest.mark.parametrize(
    ("inner", "bias"),
    [
        ("y = Conv (x, w) z = Add (y, c)", [3, 4]),
        ("y = Conv (x, w, b) z = Add (c, y)", [13, 24]),
        ("y = Conv (x, w, b) z = Sub (y, c)", [7, 16]),
        ("y = ConvTranspose (x, w, b) z = Add (c, y)", [13, 24]),
        ("t = Add (x, c) z = Conv (t, w, b)", [10 + 3 * 10 + 4 * 26, 20 + 3 * 10 + 4 * 26]),
        ("t = Add (x, c) z = Conv <auto_pad = 'VALID'> (t, w)".replace("'", '"'), [134, 134]),
    ],
)
def test_the_constant_becomes_bias(inner: str, bias: list[float]):
    (node,) = applied("fuse-bias", conv(inner)).graph
    found = constant(node.inputs[2])
    assert found is not None
    assert found.tolist() == bias


def test_groups_before_a_convolution():
    text = """g (float[1,4,3] x) => (float[1,2,2] z)
        <float[2,2,2] w = {1,2,3,4,5,6,7,8}, float[4,1] c = {1,10,100,1000}>
        { t = Add (x, c) z = Conv <group = 2> (t, w) }"""
    (node,) = applied("fuse-bias", text).graph
    found = constant(node.inputs[2])
    assert found is not None
    assert found.tolist() == [3 + 70, 1100 + 15000]


def test_columns_of_a_gemm():
    text = """g (float[N,2] x) => (float[N,3] z) <float[2,3] w = {1,2,3,4,5,6}, float b = {1}, float[3] c = {1,2,3}>
        { y = Gemm <beta = 2.0> (x, w, b) z = Add (y, c) }"""
    (node,) = applied("fuse-bias", text).graph
    found = constant(node.inputs[2])
    assert found is not None
    assert (found.tolist(), node.attributes.get("beta")) == ([3, 4, 5], None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            conv("y = Conv (x, w) z = Add (y, c)", "float[3,1,2,1,1] c = {1,2,3,4,5,6}").replace("?] z", "?,?] z"),
            "each channel",
        ),
        (conv("y = Conv (x, w) z = Add (y, c)", "float[3] c = {1,2,3}"), "each channel"),
        (conv("t = Add (x, c) z = Conv <pads = [0,1,0,0]> (t, w)"), "padded"),
        (conv("t = Add (x, c) z = Conv <auto_pad = 'SAME_UPPER'> (t, w)".replace("'", '"')), "padded"),
        (conv("t = Add (x, c) z = Conv (t, w)", x="1,1,4,4"), "each channel of the input"),
        (conv("t = Add (x, c) z = Conv (t, w)", "float[2,2,1,1] c = {1,2,3,4}"), "each channel of the input"),
        (conv("y = Conv (x, w) z = Add (y, c)", "float[2,1,1] c = {nan,1}"), "not constant and finite"),
    ],
)
def test_refuses(text: str, reason: str):
    assert reason in reasons("fuse-bias", text)


def test_a_matrix_as_bias_of_a_gemm_stays():
    text = """g (float[2,2] x) => (float[2,3] z)
        <float[2,3] w = {1,2,3,4,5,6}, float[2,1] b = {1,2}, float[3] c = {1,2,3}>
        { y = Gemm (x, w, b) z = Add (y, c) }"""
    assert "each column" in reasons("fuse-bias", text)


def test_together_with_a_scale():
    inner = "a = Conv (x, w, b) y = Mul (a, c) z = Add (y, c)"
    assert outcome("fuse-scale, fuse-bias", conv(inner)) == ["Conv"]


def test_the_weights_need_not_be_constant():
    text = """g (float[1,2,4,4] x, float[2,2,1,1] w) => (float[1,2,4,4] z) <float[2,1,1] c = {3,4}>
        { y = Conv (x, w) z = Add (y, c) }"""
    assert outcome("fuse-bias", text) == ["Conv"]
