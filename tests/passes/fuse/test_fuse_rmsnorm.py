from __future__ import annotations

import pytest

from onnx_passes.graph.constants import constant
from tests.passes.fuse.tools import applied, outcome, reasons

CONSTANTS = "int64[1] axes = {-1}, float eps = {0.001}, float two = {2}, float one = {1}, float[4] s = {1,2,3,4}"
ROOT = "q = Pow (x, two) r = ReduceMean (q, axes) p = Add (r, eps) t = Sqrt (p)"


def norm(inner: str, constants: str = CONSTANTS) -> str:
    return f"g (float[2,N,4] x) => (float[?,?,?] z) <{constants}> {{ {inner} }}"


@pytest.mark.parametrize(
    "inner",
    [
        f"{ROOT} z = Div (x, t)",
        f"{ROOT} i = Reciprocal (t) z = Mul (x, i)",
        f"{ROOT} i = Div (one, t) n = Mul (i, x) z = Mul (n, s)",
        f"{ROOT.replace('Pow (x, two)', 'Mul (x, x)')} n = Div (x, t) z = Mul (s, n)",
    ],
)
def test_every_way_to_write_it(inner: str):
    assert outcome("fuse-rmsnorm", norm(inner), opset=23) == ["RMSNormalization"]


def test_the_scale():
    (node,) = applied("fuse-rmsnorm", norm(f"{ROOT} n = Div (x, t) z = Mul (s, n)"), opset=23).graph
    found = constant(node.inputs[1])
    assert found is not None
    assert found.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("text", "opset", "reason"),
    [
        (norm(f"{ROOT} z = Div (x, t)"), 22, "opset 23"),
        (norm(f"{ROOT} z = Div (x, t)", CONSTANTS.replace("axes = {-1}", "axes = {0}")), 23, "last axes"),
        (norm(f"{ROOT} i = Div (two, t) z = Mul (x, i)"), 23, "not that of one"),
        (norm(f"{ROOT} z = Div (x, t)").replace("float", "double"), 23, "single or half precision"),
    ],
)
def test_refuses(text: str, opset: int, reason: str):
    assert reason in reasons("fuse-rmsnorm", text, opset=opset)
