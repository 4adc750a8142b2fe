from __future__ import annotations

import numpy as np
import pytest

from onnx_passes.passes.eliminate.piece_laws import EliminateSlice
from tests.passes.eliminate.tools import body, refusals, rewritten

LARGEST = 2**63 - 1


def _slice(starts: str, ends: str, axes: str, steps: str, shape: str) -> str:
    size = starts.count(",") + 1
    return f"""g (float[{shape}] x) => (float[{",".join("ABCD"[: shape.count(",") + 1])}] y)
        <int64[{size}] s = {{{starts}}}, int64[{size}] e = {{{ends}}},
         int64[{size}] a = {{{axes}}}, int64[{size}] t = {{{steps}}}>
        {{b = Slice (x, s, e, a, t) y = Neg (b)}}"""


@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps", "shape"),
    [
        ("0", str(LARGEST), "1", "1", "N,M"),
        ("0", str(2**31 - 1), "-1", "1", "N,M"),
        ("0, 0", "2, 100", "1, 0", "1, 1", "3,2"),
        ("-3", "3", "0", "1", "3,2"),
        ("-100", "100", "0", "1", "3,2"),
        ("0", "1", "0", "7", "1,2"),
        ("-1", "-9", "0", "-1", "1,2"),
        ("2", "1", "0", "1", "0,2"),
    ],
)
def test_removes_what_takes_everything(starts: str, ends: str, axes: str, steps: str, shape: str):
    assert body(rewritten(EliminateSlice(), _slice(starts, ends, axes, steps, shape))) == "y = Neg(x)"


@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps", "shape"),
    [
        ("-1", "-9", "0", "-1", "3,2"),
        ("0", "-1", "0", "1", "3,2"),
        ("0", str(LARGEST), "0", "2", "N,2"),
        ("0", "100", "0", "1", "N,2"),
        ("-5", str(LARGEST), "0", "1", "N,2"),
        ("0, 1", "9, 9", "0, 1", "1, 1", "3,2"),
    ],
)
def test_keeps_what_leaves_something_out(starts: str, ends: str, axes: str, steps: str, shape: str):
    reasons = refusals(EliminateSlice(), _slice(starts, ends, axes, steps, shape))
    assert "it drops elements, or the size is unknown" in reasons


def test_keeps_backwards_slice_of_the_same_shape():
    text = _slice("-1", f"-{LARGEST}", "0", "-1", "3,2").replace("float[A,B] y", "float[3,2] y")
    assert refusals(EliminateSlice(), text)


def test_keeps_bounds_that_may_be_overridden():
    text = """g (float[3] x, int64[1] s = {0}) => (float[A] y) <int64[1] e = {9}> {b = Slice (x, s, e) y = Neg (b)}"""
    assert "start or end is not constant" in refusals(EliminateSlice(), text)


def test_removes_slice_with_attributes_of_old_opsets():
    text = "g (float[3,2] x) => (float[3,2] y) {b = Slice <starts = [0], ends = [2], axes = [1]> (x) y = Neg (b)}"
    assert body(rewritten(EliminateSlice(), text, opset=9)) == "y = Neg(x)"


def test_merges_slices_with_attributes_of_old_opsets():
    text = """g (float[6,5] x) => (float[2,3] y) {
        a = Slice <starts = [1], ends = [5], axes = [0]> (x)
        y = Slice <starts = [1, 2], ends = [3, 9]> (a)
    }"""
    model = rewritten(EliminateSlice(), text, opset=9)
    assert body(model) == "y = Slice<axes=[0,1], ends=[4,9], starts=[2,2]>(x)"


def test_merges_every_pair_of_forward_slices():
    for size, s1, e1, s2, e2 in np.random.default_rng(0).integers(0, 6, (60, 5)):
        text = f"""g (float[{size}] x) => (float[A] z)
            <int64[1] a = {{{s1}}}, int64[1] b = {{{e1}}}, int64[1] c = {{{s2}}}, int64[1] d = {{{e2}}}> {{
            u = Slice (x, a, b) y = Slice (u, c, d) z = Neg (y)
        }}"""
        model = rewritten(EliminateSlice(), text, infer=False)
        assert len(model.graph) <= 2


def test_merges_slices_of_different_axes_whatever_the_steps():
    text = """g (float[6,5] x) => (float[3,5] y) <int64[1] z = {0}, int64[1] o = {1}, int64[1] m = {-1},
        int64[1] l = {-100}, int64[1] e = {100}, int64[1] t = {2}> {
        a = Slice (x, z, e, z, t) y = Slice (a, m, l, o, m)
    }"""
    assert len(rewritten(EliminateSlice(), text).graph) == 1


@pytest.mark.parametrize(("first", "second"), [("-4, 9", "0, 2"), ("0, 9", "0, -1"), ("1, 9", "-2, 9")])
def test_keeps_two_slices_counted_from_the_end(first: str, second: str):
    (s1, e1), (s2, e2) = first.split(","), second.split(",")
    text = f"""g (float[N] x) => (float[A] y)
        <int64[1] a = {{{s1}}}, int64[1] b = {{{e1}}}, int64[1] c = {{{s2}}}, int64[1] d = {{{e2}}}> {{
        u = Slice (x, a, b) y = Slice (u, c, d)
    }}"""
    assert "an axis is sliced twice, not both forwards by steps of one" in refusals(EliminateSlice(), text)
