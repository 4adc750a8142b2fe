from __future__ import annotations

import numpy as np
import pytest

from onnx_passes.passes.eliminate.lattice_laws import EliminateWhere, EliminateWhereOfFloats
from tests.passes.eliminate.tools import body, refusals, rewritten


@pytest.mark.parametrize(("constant", "chosen"), [("1", "x"), ("0", "y")])
def test_takes_what_a_constant_condition_selects(constant: str, chosen: str):
    text = f"""g (int64[2,3] x, int64[2,3] y) => (int64[2,3] z) <bool[3] c = {{{constant}, {constant}, {constant}}}> {{
        a = Where (c, x, y) z = Neg (a)
    }}"""
    assert body(rewritten(EliminateWhere(), text)) == f"z = Neg({chosen})"


def test_takes_the_second_choice_of_floats():
    text = "g (float[12] x, float[12] y) => (float[12] z) <bool c = {0}> {a = Where (c, x, y) z = Neg (a)}"
    assert body(rewritten(EliminateWhere(), text)) == "z = Neg(y)"


@pytest.mark.parametrize("nodes", ["z = Where (t, x, y)", "z = Where (c, x, x)", "n = Not (c) z = Where (n, x, y)"])
def test_leaves_floats_whose_zeros_the_runtime_changes_to_fast_math(nodes: str):
    text = f"g (bool[4] c, float[4] x, float[4] y) => (float[4] z) <bool t = {{1}}> {{{nodes}}}"
    assert "the sign of a zero may change" in refusals(EliminateWhere(), text)
    assert EliminateWhereOfFloats.fast_math == ("nsz",)


def test_fast_math_takes_any_choice_of_floats():
    text = """g (bool[2] c, float[2] x, float[2] y) => (float[2] z, float[2] u) <bool t = {1}> {
        a = Where (t, x, y) n = Not (c) b = Where (n, x, y) z = Neg (a) u = Neg (b)
    }"""
    numbers = np.array([1, 2], np.float32)
    model = rewritten(EliminateWhereOfFloats(), text, feeds={"c": numbers > 1, "x": numbers, "y": -numbers})
    assert body(model) == "b = Where(c, y, x); z = Neg(x); u = Neg(b)"


def test_same_choices_need_no_condition():
    text = "g (bool[3] c, int32[2,3] x) => (int32[2,3] z) {a = Where (c, x, x) z = Neg (a)}"
    assert body(rewritten(EliminateWhere(), text)) == "z = Neg(x)"


def test_negated_condition_swaps_the_choices():
    text = "g (bool[2] c, int32[2] x, int32 y) => (int32[2] z) {n = Not (c) z = Where (n, x, y)}"
    assert body(rewritten(EliminateWhere(), text)) == "z = Where(c, y, x)"


@pytest.mark.parametrize(("c", "x", "y"), [("[2]", "", ""), ("", "", "[2]"), ("[1,2]", "[2]", "[2]")])
def test_keeps_what_is_widened(c: str, x: str, y: str):
    ones = "1, 1" if "2" in c else "1"
    text = f"""g (int32{x} x, int32{y} y) => (int32[{"A,B" if "," in c else "A"}] z) <bool{c} c = {{{ones}}}> {{
        z = Where (c, x, y)
    }}"""
    assert "the choice may be widened" in refusals(EliminateWhere(), text)


def test_keeps_same_choices_that_the_condition_widens():
    text = "g (bool[2,1] c, int32[3] x) => (int32[2,3] z) {z = Where (c, x, x)}"
    assert "the condition may widen the choice" in refusals(EliminateWhere(), text)


@pytest.mark.parametrize("inputs", ["int32[2] x, bool[2] c = {1, 1}", "int32[2] x, bool[2] c"])
def test_keeps_conditions_that_are_not_constant(inputs: str):
    text = f"g ({inputs}) => (int32[2] z) <int32 y = {{3}}> {{z = Where (c, x, y)}}"
    assert "the condition is not constant, or mixed" in refusals(EliminateWhere(), text)
