"""Selections move up, so that less is computed."""

from __future__ import annotations

import pytest

from onnx_passes.passes.move.move_selection_up import MoveSelectionUp, MoveSelectionUpRounding
from tests.passes.move.tools import order, refusals, rewritten, rounded


def test_slice_past_one_operand():
    text = """g (float[4,5] x) => (float[2,5] y) <int64[1] a = {1}, int64[1] b = {3}> {
        n = Neg (x) c = Cast <to = 1> (n) y = Slice (c, a, b)
    }"""
    assert order(MoveSelectionUp(), text) == ["Slice", "Neg", "Cast"]


def test_slice_with_computed_bounds_past_one_operand():
    text = """g (float[4,5] x, int64[1] a, int64[1] b) => (float[N,5] y) {n = Neg (x) y = Slice (n, a, b)}"""
    assert order(MoveSelectionUp(), text) == ["Slice", "Neg"]


def test_each_operand_is_cut_where_it_is_not_broadcast():
    text = """g (float[2,4,5] x, float[4,1] z, float[5] w) => (float[2,2,2] y)
        <int64[2] a = {1,-1}, int64[2] b = {3,-6}, int64[2] axes = {1,2}, int64[2] steps = {1,-3}> {
        s = Add (x, z) t = Mul (s, w) y = Slice (t, a, b, axes, steps)
    }"""
    model = rewritten(MoveSelectionUp(), text)
    assert sorted(n.op_type for n in model.graph) == ["Add", "Mul", "Slice", "Slice", "Slice"]


def test_empty_range_of_single_elements_stays_empty():
    text = """g (float[1,1] x, float[1,1] z) => (float[0,1] y) <int64[1] a = {1}, int64[1] b = {1}> {
        s = Add (x, z) y = Slice (s, a, b)
    }"""
    model = rewritten(MoveSelectionUp(), text)
    assert sorted(n.op_type for n in model.graph) == ["Add", "Slice", "Slice"]


def test_operand_of_unknown_size_is_refused():
    text = """g (float[N] x, float[M] z) => (float[K] y) <int64[1] a = {0}, int64[1] b = {1}> {
        s = Add (x, z) y = Slice (s, a, b)
    }"""
    assert "it is not known whether an operand is broadcast" in refusals(MoveSelectionUp(), text)


def test_bounds_that_are_attributes():
    text = """g (float[4,5] x, float[5] z) => (float[2,3] y) {
        s = Add (x, z) y = Slice <axes = [0,1], starts = [1,0], ends = [3,3]> (s)
    }"""
    model = rewritten(MoveSelectionUp(), text, opset=9)
    assert sorted(n.op_type for n in model.graph) == ["Add", "Slice", "Slice"]


@pytest.mark.parametrize(("indices", "result"), [("int64 i = {2}", "5"), ("int64[2] i = {-1,0}", "2,5")])
def test_gather_past_elementwise(indices: str, result: str):
    text = f"""g (float[4,5] x, float[5] z) => (float[{result}] y) <{indices}> {{
        s = Sub (x, z) y = Gather <axis = 0> (s, i)
    }}"""
    assert order(MoveSelectionUp(), text) == ["Gather", "Sub"]


def test_gather_of_more_than_there_is_stays():
    text = """g (float[2,5] x) => (float[3,5] y) <int64[3] i = {1,1,0}> {n = Neg (x) y = Gather (n, i)}"""
    assert "there may be more indices than elements" in refusals(MoveSelectionUp(), text)


def test_gather_that_changes_the_rank_where_an_operand_is_broadcast_is_refused():
    text = """g (float[4,5] x, float[1,5] z) => (float[5] y) <int64 i = {1}> {s = Sub (x, z) y = Gather (s, i)}"""
    assert any("rank changes" in reason for reason in refusals(MoveSelectionUp(), text))


def test_what_is_used_as_a_whole_is_computed_as_a_whole():
    text = """g (float[4] x) => (float[4] n, float[1] y) <int64[1] a = {1}, int64[1] b = {2}> {
        n = Neg (x) y = Slice (n, a, b)
    }"""
    assert any("graph output" in reason for reason in refusals(MoveSelectionUp(), text))


def test_functions_may_round_differently():
    text = """g (float[40] x) => (float[3] y) <int64[1] a = {1}, int64[1] b = {4}> {n = Sin (x) y = Slice (n, a, b)}"""
    assert rounded(MoveSelectionUpRounding(), text) == ["Slice", "Sin"]
