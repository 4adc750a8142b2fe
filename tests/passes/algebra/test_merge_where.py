"""Selections with the same condition become one."""

from __future__ import annotations

import pytest

from onnx_passes.core.base import Pass
from onnx_passes.passes.algebra.logic_laws import MergeWhere, MergeWhereFast
from tests.passes.algebra.tools import body, refusals, rewritten


@pytest.mark.parametrize(("pass_", "kind"), [(MergeWhere(), "int32"), (MergeWhereFast(), "float")])
@pytest.mark.parametrize(
    "nodes", ["a = Where (c, x, z) w = Where (c, a, y)", "a = Where (c, z, y) w = Where (c, x, a)"]
)
def test_drops_what_is_never_taken(pass_: Pass, kind: str, nodes: str) -> None:
    text = f"g (bool[3,4] c, {kind}[3,4] x, {kind}[4] y, {kind} z) => ({kind}[3,4] w) {{{nodes}}}"
    assert body(rewritten(pass_, text)) == "w = Where(c, x, y)"


def test_keeps_what_widens() -> None:
    text = "g (bool[1] c, int8[1] x, int8[1] y, int8[3] z) => (int8[3] w) {a = Where (c, x, z) w = Where (c, a, y)}"
    assert refusals(MergeWhere(), text)["the unused choice may widen the result"]


def test_keeps_floats_whose_zeros_may_change_their_sign() -> None:
    text = "g (bool c, float[2] x, float y, float[2] z) => (float[2] w) {a = Where (c, z, y) w = Where (c, x, a)}"
    assert refusals(MergeWhere(), text)["the sign of a zero may change"]


def test_a_selection_that_others_use_stays_beside() -> None:
    text = """g (bool[3] c, int8[3] x, int8[3] y, int8 z) => (int8[3] w, int8[3] a)
    {a = Where (c, x, z) w = Where (c, a, y)}"""
    assert "w = Where(c, x, y)" in body(rewritten(MergeWhere(), text))
