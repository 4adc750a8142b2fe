from __future__ import annotations

import pytest

from onnx_passes.passes.eliminate.lattice_laws import EliminateNegatedComparison
from tests.passes.eliminate.tools import body, refusals, rewritten

REVERSED = {"Less": "GreaterOrEqual", "LessOrEqual": "Greater", "Greater": "LessOrEqual", "GreaterOrEqual": "Less"}


@pytest.mark.parametrize("comparison", REVERSED)
def test_compares_the_other_way(comparison: str):
    text = f"g (int32[3,1] x, int32[4] y) => (bool[3,4] z) {{a = {comparison} (x, y) z = Not (a)}}"
    assert body(rewritten(EliminateNegatedComparison(), text)) == f"z = {REVERSED[comparison]}(x, y)"


def test_keeps_comparisons_of_floats():
    text = "g (float[2] x, float[2] y) => (bool[2] z) {a = Less (x, y) z = Not (a)}"
    assert "comparisons with NaN are false both ways" in refusals(EliminateNegatedComparison(), text)


def test_keeps_comparison_that_others_use():
    text = "g (int32[2] x, int32[2] y) => (bool[2] a, bool[2] z) {a = Less (x, y) z = Not (a)}"
    assert "a value inside the match is a graph output" in refusals(EliminateNegatedComparison(), text)
