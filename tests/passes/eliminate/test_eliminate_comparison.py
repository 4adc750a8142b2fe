from __future__ import annotations

import pytest

from onnx_passes.passes.eliminate.element_laws import EliminateComparison
from tests.passes.eliminate.tools import body, refusals, rewritten
from tests.passes.tools import operators


def graph(nodes: str, result: str = "bool[3]") -> str:
    return f"""g (float[2,3,4] x, int64[3] k, float[3] f) => ({result} y)
      <int64 o = {{0}}, int64 n = {{3}}, int64 d = {{1}}, int64 back = {{-1}}, int64[1] axis = {{0}},
       int64[3] under = {{0, -1, -7}}, int64[3] over = {{0, 1, 0}}, float z = {{0}}, int64[2,1] tall = {{0, 0}}>
      {{ {nodes} }}"""


@pytest.mark.parametrize(
    "nodes",
    [
        "r = Range (o, n, d) y = GreaterOrEqual (r, o)",
        "r = Range (o, n, d) y = Less (r, under)",
        "r = Shape (x) y = LessOrEqual (under, r)",
        "r = Shape (x) y = Greater (o, r)",
        "r = Range (o, n, d) u = Unsqueeze (r, axis) s = Squeeze (u, axis) y = GreaterOrEqual (s, o)",
    ],
)
def test_counts_and_sizes_are_not_below_zero(nodes: str):
    model = rewritten(EliminateComparison(), graph(nodes))
    assert operators(model.graph)[-1] == "Expand"


def test_masks_of_positions_go():
    text = """g (bool[B,1,1,N] m) => (bool[B,1,1,N] y)
      <int64 o = {0}, int64 d = {1}, int64 last = {3}, int64[3] axes = {0, 1, 2}> {
        s = Shape (m) n = Gather (s, last) r = Range (o, n, d) u = Unsqueeze (r, axes)
        g = GreaterOrEqual (u, o) y = And (m, g)
      }"""
    import onnx_passes
    from tests.passes.tools import model_of

    assert body(onnx_passes.apply(model_of(text), "simplify").model) == "y = Identity(m)"


@pytest.mark.parametrize(
    ("nodes", "result", "reason"),
    [
        ("y = GreaterOrEqual (k, o)", "bool[3]", "may be negative"),
        ("r = Range (n, back, back) y = GreaterOrEqual (r, o)", "bool[4]", "may be negative"),
        ("r = Shape (x) y = GreaterOrEqual (r, over)", "bool[3]", "at most zero"),
        ("r = Range (o, n, d) y = GreaterOrEqual (r, tall)", "bool[2,3]", "widen"),
        ("a = Abs (f) y = GreaterOrEqual (a, z)", "bool[3]", "at most zero"),
    ],
)
def test_refusals(nodes: str, result: str, reason: str):
    assert any(reason in refusal for refusal in refusals(EliminateComparison(), graph(nodes, result)))
