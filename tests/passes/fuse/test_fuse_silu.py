from __future__ import annotations

import pytest

from tests.passes.fuse.tools import applied, outcome, reasons


def silu(inner: str, constants: str = "float c = {1.702}", outputs: str = "float[2,3] z") -> str:
    return f"g (float[2,3] x) => ({outputs}) <{constants}> {{ {inner} }}"


def test_a_product_with_the_sigmoid():
    assert outcome("fuse-silu", silu("s = Sigmoid (x) z = Mul (s, x)"), opset=24) == ["Swish"]


def test_a_factor():
    (node,) = applied("fuse-silu", silu("m = Mul (c, x) s = Sigmoid (m) z = Mul (x, s)"), opset=24).graph
    assert node.op_type == "Swish"
    assert node.attributes.get_float("alpha", 0) == pytest.approx(1.702)


@pytest.mark.parametrize(
    ("text", "opset", "reason"),
    [
        (silu("s = Sigmoid (x) z = Mul (s, x)"), 23, "opset 24"),
        (silu("m = Mul (c, x) s = Sigmoid (m) z = Mul (x, s)", "float[3] c = {1,2,3}"), 24, "not a constant number"),
        (silu("m = Mul (c, x) s = Sigmoid (m) z = Mul (x, s)", "float c = {inf}"), 24, "not a constant number"),
        (silu("s = Sigmoid (x) z = Mul (s, x)", outputs="float[2,3] z, float[2,3] s"), 24, "graph output"),
    ],
)
def test_refuses(text: str, opset: int, reason: str):
    assert reason in reasons("fuse-silu", text, opset=opset)
