"""What repeats elements moves down, so that nothing is computed twice."""

from __future__ import annotations

import pytest

from onnx_passes.passes.move.move_expand_down import MoveExpandDown, MoveExpandDownRounding
from tests.passes.move.tools import order, refusals, rounded


@pytest.mark.parametrize("mover", ["Expand (x, s)", "Tile (x, r)"])
@pytest.mark.parametrize("outer", ["Neg (m)", "Sub (c, m)", "Sub (m, one)", "Sum (one, m, c)"])
def test_compute_first(mover: str, outer: str):
    text = f"""g (float[1,3] x) => (float[2,3] y)
        <int64[2] s = {{2,3}}, int64[2] r = {{2,1}}, float c = {{2}}, float[1,1] one = {{3}}> {{
        m = {mover} y = {outer}
    }}"""
    assert order(MoveExpandDown(), text) == [outer.split()[0], mover.split()[0]]


def test_expansion_to_nothing():
    text = "g (float[1] x) => (float[0] y) <int64[1] s = {0}> {m = Expand (x, s) y = Neg (m)}"
    assert order(MoveExpandDown(), text) == ["Neg", "Expand"]


def test_integers_are_not_divided_where_they_were_not():
    text = "g (int32[1] x, int32 d) => (int32[0] y) <int64[1] s = {0}> {m = Expand (x, s) y = Div (m, d)}"
    assert "a new integer division may fail" in refusals(MoveExpandDown(), text)


@pytest.mark.parametrize("other", ["float[3]", "float[1,1,1]", "float[N]"])
def test_other_operands_must_be_single_elements(other: str):
    text = (
        f"""g (float[1,3] x, {other} z) => (float[A,B] y) <int64[2] s = {{2,3}}> {{m = Expand (x, s) y = Add (m, z)}}"""
    )
    if other == "float[1,1,1]":
        text = text.replace("[A,B]", "[1,A,B]")
    assert "an operand is not known to be a single element" in refusals(MoveExpandDown(), text)


def test_cast_to_a_type_that_is_seldom_supported_stays():
    text = "g (float[1] x) => (bfloat16[2] y) <int64[1] s = {2}> {m = Expand (x, s) y = Cast <to = 16> (m)}"
    assert any("may not support" in reason for reason in refusals(MoveExpandDown(), text))


def test_expansion_that_is_used_elsewhere_stays():
    text = "g (float[1] x) => (float[2] m, float[2] y) <int64[1] s = {2}> {m = Expand (x, s) y = Neg (m)}"
    assert any("graph output" in reason for reason in refusals(MoveExpandDown(), text))


def test_functions_may_round_differently():
    text = "g (float[1] x) => (float[40] y) <int64[1] s = {40}> {m = Expand (x, s) y = Sin (m)}"
    assert rounded(MoveExpandDownRounding(), text) == ["Sin", "Expand"]


def test_zeros_may_change_their_sign():
    text = """g (float[1,3] x) => (float[2,3] y) <int64[2] s = {2,3}, float c = {2}, bool yes = {1}> {
        m = Expand (x, s) n = Max (c, m) y = Where (yes, n, c)
    }"""
    assert rounded(MoveExpandDownRounding(), text) == ["Max", "Where", "Expand"]
