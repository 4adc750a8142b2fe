"""Selections with the same condition become one."""

from __future__ import annotations

import pytest

from onnx_passes.passes.algebra.merge_where import MergeWhere
from tests.passes.algebra.tools import body, refusals, rewritten


@pytest.mark.parametrize(
    "nodes", ["a = Where (c, x, z) w = Where (c, a, y)", "a = Where (c, z, y) w = Where (c, x, a)"]
)
def test_drops_what_is_never_taken(nodes: str) -> None:
    text = f"g (bool[3,4] c, float[3,4] x, float[4] y, float z) => (float[3,4] w) {{{nodes}}}"
    assert body(rewritten(MergeWhere(), text)) == "w = Where(c, x, y)"


def test_keeps_what_widens() -> None:
    text = "g (bool[1] c, float[1] x, float[1] y, float[3] z) => (float[3] w) {a = Where (c, x, z) w = Where (c, a, y)}"
    assert refusals(MergeWhere(), text)["what is never taken may widen the result"]


def test_a_selection_that_others_use_stays_beside() -> None:
    text = """g (bool[3] c, float[3] x, float[3] y, float z) => (float[3] w, float[3] a)
    {a = Where (c, x, z) w = Where (c, a, y)}"""
    assert "w = Where(c, x, y)" in body(rewritten(MergeWhere(), text))
