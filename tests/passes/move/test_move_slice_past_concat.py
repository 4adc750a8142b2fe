"""Parts of which nothing is selected are not joined."""

from __future__ import annotations

import pytest

from onnx_passes.passes.move.move_slice_past_concat import MoveSlicePastConcat
from tests.passes.move.tools import order, refusals


@pytest.mark.parametrize(
    ("start", "end", "size", "operators"),
    [(0, 2, 2, ["Slice"]), (3, 5, 2, ["Slice"]), (-4, -1, 3, ["Slice"]), (1, 4, 3, ["Concat", "Slice"])],
)
def test_slice_of_parts(start: int, end: int, size: int, operators: list[str]):
    text = f"""g (float[2,2] a, float[2,3] b, float[2,4] c) => (float[2,{size}] y)
        <int64[1] s = {{{start}}}, int64[1] e = {{{end}}}, int64[1] axis = {{-1}}> {{
        j = Concat <axis = 1> (a, b, c) y = Slice (j, s, e, axis)
    }}"""
    assert order(MoveSlicePastConcat(), text) == operators


def test_slice_of_all_parts_or_of_none_stays():
    text = """g (float[2] a, float[3] b) => (float[N] y) <int64[1] s = {1}, int64[1] e = {END}> {
        j = Concat <axis = 0> (a, b) y = Slice (j, s, e)
    }"""
    for end in ("4", "1"):
        assert any("every operand" in reason for reason in refusals(MoveSlicePastConcat(), text.replace("END", end)))


def test_joined_value_that_is_used_elsewhere_is_cut_only_to_one_part():
    text = """g (float[2] a, float[3] b, float[4] c) => (float[N] y, float[9] j)
        <int64[1] s = {0}, int64[1] e = {END}> {
        j = Concat <axis = 0> (a, b, c) y = Slice (j, s, e)
    }"""
    assert order(MoveSlicePastConcat(), text.replace("END", "2")) == ["Concat", "Slice"]
    assert "the concatenation is used elsewhere" in refusals(MoveSlicePastConcat(), text.replace("END", "4"))
