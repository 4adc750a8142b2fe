from __future__ import annotations

import pytest

from tests.passes.fuse.tools import applied, outcome, reasons

CONSTANTS = "float three = {3}, float zero = {0}, float six = {6}, float sixth = {0.16666667}"
CLIPPED = "s = Add (x, three) t = Clip (s, zero, six)"


def swish(inner: str, constants: str = CONSTANTS, x: str = "float[2,3]") -> str:
    return f"g ({x} x) => ({x} z) <{constants}> {{ {inner} }}"


@pytest.mark.parametrize(
    "inner",
    [
        f"{CLIPPED} m = Mul (x, t) z = Div (m, six)",
        f"{CLIPPED} m = Mul (t, x) z = Mul (sixth, m)",
        f"{CLIPPED} m = Div (t, six) z = Mul (m, x)",
        f"{CLIPPED} m = Mul (t, sixth) z = Mul (x, m)",
        "m = HardSigmoid <alpha = 0.16666667, beta = 0.5> (x) z = Mul (x, m)",
    ],
)
def test_every_way_to_write_it(inner: str):
    assert outcome("fuse-hardswish", swish(inner)) == ["HardSwish"]


@pytest.mark.parametrize(
    ("text", "opset", "reason"),
    [
        (swish(f"{CLIPPED} m = Mul (x, t) z = Div (m, six)"), 13, "opset 14"),
        (swish("m = HardSigmoid (x) z = Mul (x, m)"), 18, "not that of HardSwish"),
        (swish(f"{CLIPPED} m = Mul (x, t) z = Div (m, six)", CONSTANTS.replace("{3}", "{2}")), 18, "not x + 3"),
        (swish(f"{CLIPPED} m = Mul (x, t) z = Div (m, six)", CONSTANTS.replace("{0}", "{1}")), 18, "between zero"),
        (swish(f"{CLIPPED} m = Mul (x, t) z = Div (m, three)"), 18, "does not end at one"),
    ],
)
def test_refuses(text: str, opset: int, reason: str):
    assert reason in reasons("fuse-hardswish", text, opset=opset)


@pytest.mark.parametrize("last", ["Div (t, six)", "Mul (sixth, t)"])
def test_a_clipped_line_is_a_hard_sigmoid(last: str):
    (node,) = applied("fuse-hardsigmoid", swish(f"{CLIPPED} z = {last}")).graph
    assert node.op_type == "HardSigmoid"
    assert node.attributes.get_float("alpha", 0) == pytest.approx(1 / 6)
    assert node.attributes.get_float("beta", 0) == pytest.approx(0.5)


def test_any_line_that_ends_at_one():
    constants = CONSTANTS.replace("{3}", "{-1}").replace("{6}", "{4}")
    (node,) = applied("fuse-hardsigmoid", swish(f"{CLIPPED} z = Div (t, six)", constants)).graph
    assert (node.attributes.get_float("alpha", 0), node.attributes.get_float("beta", 0)) == (0.25, -0.25)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (swish(f"{CLIPPED} z = Div (t, six)", CONSTANTS.replace("{3}", "{inf}")), "offset"),
        (swish(f"{CLIPPED} z = Div (t, six)", CONSTANTS.replace("six = {6}", "six = {-6}")), "between zero"),
        (swish(f"{CLIPPED} z = Mul (t, six)"), "does not end at one"),
        (swish(f"{CLIPPED} z = Div (t, six)").replace("float", "double"), "single or half precision"),
    ],
)
def test_hard_sigmoid_refuses(text: str, reason: str):
    assert reason in reasons("fuse-hardsigmoid", text)
