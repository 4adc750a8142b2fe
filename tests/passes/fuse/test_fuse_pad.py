from __future__ import annotations

import pytest

from tests.passes.fuse.tools import applied, outcome, reasons

PADS = "int64[8] p = {0,0,1,0,0,0,0,1}"


def padded(inner: str, constants: str = PADS, outputs: str = "float[?,?,?,?] z") -> str:
    return f"""g (float[1,1,5,5] x, float[2,1,3,3] w) => ({outputs})
        <{constants}, float lowest = {{-inf}}, float zero = {{0}}, int64[2] axes = {{-1,2}}> {{ {inner} }}"""


@pytest.mark.parametrize(
    ("inner", "pads"),
    [
        ("y = Pad (x, p) z = Conv (y, w)", [1, 0, 0, 1]),
        ("y = Pad (x, p, zero) z = Conv <pads = [0,1,2,0]> (y, w)", [1, 1, 2, 1]),
        ("y = Pad (x, p) z = Conv <auto_pad = 'VALID'> (y, w)", [1, 0, 0, 1]),
        ("y = Pad (x, p, lowest) z = MaxPool <kernel_shape = [2,2]> (y)", [1, 0, 0, 1]),
        ("y = Pad (x, p) z = AveragePool <kernel_shape = [2,2]> (y)", [1, 0, 0, 1]),
        ("y = Pad (x, p) z = LpPool <kernel_shape = [2,2]> (y)", [1, 0, 0, 1]),
    ],
)
def test_padding_moves(inner: str, pads: list[int]):
    (node,) = applied("fuse-pad", padded(inner.replace("'", '"'))).graph
    assert list(node.attributes.get_ints("pads", ())) == pads
    assert "auto_pad" not in node.attributes


def test_an_average_counts_what_was_padded():
    (node,) = applied("fuse-pad", padded("y = Pad (x, p) z = AveragePool <kernel_shape = [2,2]> (y)")).graph
    assert node.attributes.get_int("count_include_pad", 0) == 1


def test_axes_in_any_order():
    inner = "y = Pad (x, p, , axes) z = Conv (y, w)".replace(", , ", ", zero, ")
    (node,) = applied("fuse-pad", padded(inner, "int64[4] p = {1,2,3,4}")).graph
    assert list(node.attributes.get_ints("pads", ())) == [2, 1, 4, 3]


@pytest.mark.parametrize(
    ("inner", "constants", "reason"),
    [
        ("y = Pad (x, p, lowest) z = Conv (y, w)", PADS, "Conv does not pad with that value"),
        ("y = Pad (x, p) z = MaxPool <kernel_shape = [2,2]> (y)", PADS, "MaxPool does not pad with that value"),
        ("y = Pad <mode = 'edge'> (x, p) z = Conv (y, w)", PADS, "not constant"),
        ("y = Pad (x, p) z = Conv (y, w)", "int64[8] p = {0,0,1,0,0,0,-1,1}", "negative"),
        ("y = Pad (x, p) z = Conv (y, w)", "int64[8] p = {1,0,1,0,0,0,0,1}", "spatial"),
        ("y = Pad (x, p) z = Conv <auto_pad = 'SAME_LOWER'> (y, w)", PADS, "by itself"),
        ("y = Pad (x, p) z = AveragePool <kernel_shape = [2,2], ceil_mode = 1> (y)", PADS, "by itself"),
        ("y = Pad (x, p) z = AveragePool <kernel_shape = [3,3], pads = [1,1,1,1]> (y)", PADS, "that it does not count"),
        ("y = Pad (x, p, lowest) z = MaxPool <kernel_shape = [1,2]> (y)", PADS, "only padding"),
    ],
)
def test_refuses(inner: str, constants: str, reason: str):
    assert reason in reasons("fuse-pad", padded(inner.replace("'", '"'), constants))


def test_padding_with_two_users_stays():
    inner = "y = Pad (x, p) z = Conv (y, w) q = Conv (y, w)"
    assert "used elsewhere" in reasons("fuse-pad", padded(inner, outputs="float[?,?,?,?] z, float[?,?,?,?] q"))


def test_padding_that_comes_twice_into_one_convolution_stays():
    text = f"g (float[1,1,3,3] x) => (float[?,?,?,?] z) <{PADS}> {{ y = Pad (x, p) z = Conv (y, y) }}"
    assert "two uses" in reasons("fuse-pad", text)


def test_the_lowest_integer_pads_as_well():
    text = f"""g (int8[1,1,4,4] x) => (int8[?,?,?,?] z) <{PADS}, int8 v = {{-128}}>
        {{ y = Pad (x, p, v) z = MaxPool <kernel_shape = [2,2]> (y) }}"""
    assert outcome("fuse-pad", text) == ["MaxPool"]


def test_indices_of_a_maximum_keep_the_padding():
    text = f"""g (float[1,1,4,4] x) => (float[?,?,?,?] z, int64[?,?,?,?] i) <{PADS}, float v = {{-inf}}>
        {{ y = Pad (x, p, v) z, i = MaxPool <kernel_shape = [2,2]> (y) }}"""
    assert "graph output" in reasons("fuse-pad", text)
