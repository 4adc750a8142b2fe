from __future__ import annotations

import pytest

from onnx_passes.graph.constants import constant
from tests.passes.fuse.tools import applied, outcome, reasons

CONSTANTS = """int64[1] axes = {-1}, float eps = {0.001}, float two = {2}, float one = {1},
    float[4] s = {1,2,3,4}, float[4] b = {4,3,2,1}"""
DEVIATION = (
    "m = ReduceMean (x, axes) d = Sub (x, m) q = Pow (d, two) r = ReduceMean (q, axes) p = Add (r, eps) t = Sqrt (p)"
)


def norm(inner: str, constants: str = CONSTANTS, outputs: str = "float[?,?,?] z", x: str = "float[2,N,4]") -> str:
    return f"g ({x} x, float[4] v) => ({outputs}) <{constants}> {{ {inner} }}"


@pytest.mark.parametrize(
    "inner",
    [
        f"{DEVIATION} z = Div (d, t)",
        f"{DEVIATION} i = Reciprocal (t) z = Mul (d, i)",
        f"{DEVIATION} i = Div (one, t) z = Mul (i, d)",
        f"{DEVIATION.replace('Pow (d, two)', 'Mul (d, d)')} z = Div (d, t)",
        f"{DEVIATION} n = Div (d, t) z = Mul (n, s)",
        f"{DEVIATION} n = Div (d, t) k = Mul (s, n) z = Add (k, b)",
        f"{DEVIATION} n = Div (d, t) k = Mul (v, n) z = Add (v, k)",
    ],
)
def test_every_way_to_write_it(inner: str):
    assert outcome("fuse-layernorm", norm(inner)) == ["LayerNormalization"]


def test_parameters():
    (node,) = applied("fuse-layernorm", norm(f"{DEVIATION} n = Div (d, t) k = Mul (s, n) z = Add (k, b)")).graph
    arrays = [constant(value) for value in node.inputs[1:]]
    assert [array.tolist() for array in arrays if array is not None] == [[1, 2, 3, 4], [4, 3, 2, 1]]
    assert node.attributes.get_int("axis", 0) == -1
    assert node.attributes.get_float("epsilon", 0.0) == pytest.approx(0.001)


def test_axes_as_attribute():
    inner = f"{DEVIATION} z = Div (d, t)".replace("ReduceMean (x, axes)", "ReduceMean <axes = [1,-1]> (x)")
    inner = inner.replace("ReduceMean (q, axes)", "ReduceMean <axes = [2,1]> (q)")
    (node,) = applied("fuse-layernorm", norm(inner, x="float[N,3,4]"), opset=17).graph
    assert (node.op_type, node.attributes.get_int("axis", 0)) == ("LayerNormalization", -2)


def test_scale_and_bias_of_a_normalization_that_has_them():
    (node,) = applied(
        "fuse-layernorm", norm("n = LayerNormalization (x, s, b) k = Mul (n, two) z = Add (k, one)")
    ).graph
    arrays = [constant(value) for value in node.inputs[1:]]
    assert [array.tolist() for array in arrays if array is not None] == [[2, 4, 6, 8], [9, 7, 5, 3]]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (norm(f"{DEVIATION} z = Div (d, t)", CONSTANTS.replace("{-1}", "{1}"), x="float[2,3,4]"), "last axes"),
        (norm(f"{DEVIATION} z = Div (d, t)", CONSTANTS.replace("two = {2}", "two = {3}")), "not a square"),
        (norm(f"{DEVIATION} z = Div (d, t)", CONSTANTS.replace("{0.001}", "{-1}")), "not a constant number"),
        (norm(f"{DEVIATION} z = Div (d, t)", x="float[2,4,N]"), "sizes of the last axes"),
        (norm(f"{DEVIATION} z = Div (d, t)", outputs="float[?,?,?] z, float[?,?,?] d"), "graph output"),
        (norm(f"{DEVIATION} i = Div (two, t) z = Mul (d, i)"), "not that of one"),
        (norm(f"{DEVIATION} z = Div (d, t)".replace("ReduceMean (x, axes)", "ReduceMean (x, other)"),
              f"{CONSTANTS}, int64[2] other = {{1,2}}", x="float[2,3,4]"), "same last axes"),
        (norm("n = LayerNormalization (x, s) z = Mul (n, c)", f"{CONSTANTS}, float[2,1,1] c = {{1,2}}"), "than the"),
        (norm("n = LayerNormalization (x, s) z = Mul (n, v)"), "not constant and finite"),
        (norm("n = LayerNormalization (x, s) z = Add (n, n)"), "not constant and finite"),
    ],
)  # fmt: skip
def test_refuses(text: str, reason: str):
    assert reason in reasons("fuse-layernorm", text)


def test_double_precision_stays():
    text = norm(f"{DEVIATION} z = Div (d, t)").replace("float", "double")
    assert "single or half precision" in reasons("fuse-layernorm", text)


def test_old_operator_sets_stay():
    inner = f"{DEVIATION} z = Div (d, t)".replace("(x, axes)", "(x)").replace("(q, axes)", "(q)")
    text = norm(inner.replace("ReduceMean", "ReduceMean <axes = [-1]>"))
    assert "opset 17" in reasons("fuse-layernorm", text, opset=16)
