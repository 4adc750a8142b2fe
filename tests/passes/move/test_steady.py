"""Nothing moves past an operator whose bits depend on the shape that it gets."""

from __future__ import annotations

import pytest

from onnx_passes.core.base import Pass
from onnx_passes.passes.move.move_concat_up import MoveConcatUp
from onnx_passes.passes.move.move_expand_down import MoveExpandDown
from onnx_passes.passes.move.move_pad_down import MovePadDown
from onnx_passes.passes.move.move_reshape_down import MoveReshapeDown
from onnx_passes.passes.move.move_selection_up import MoveSelectionUp
from onnx_passes.passes.move.move_transpose_down import MoveTransposeDown, MoveTransposeDownRounding
from tests.passes.move.tools import refusals, rewritten

MOVES = [
    (MoveReshapeDown(), "g (float16[5,1] x) => (float16[5] y) <int64[1] a = {1}> {m = Squeeze (x, a) y = Relu (m)}"),
    (MoveTransposeDown(), "g (float16[5,1] x) => (float16[1,5] y) {m = Transpose (x) y = Relu (m)}"),
    (MoveExpandDown(), "g (float16[5,1] x) => (float16[5,3] y) <int64[1] s = {3}> {m = Expand (x, s) y = Relu (m)}"),
    (MovePadDown(), "g (float16[5,1] x) => (float16[5,2] y) <int64[4] p = {0,0,0,1}> {m = Pad (x, p) y = Relu (m)}"),
    (
        MoveSelectionUp(),
        "g (float16[2,1] x) => (float16[1,1] y) <int64[1] a = {1}, int64[1] b = {2}> {r = Relu (x) y = Slice (r,a,b)}",
    ),
    (
        MoveConcatUp(),
        "g (float16[5,1] a, float16[5,1] b) => (float16[5,2] y) {r = Relu (a) s = Relu (b) y = Concat <axis=1> (r, s)}",
    ),
]
IDS = [type(pass_).__name__ for pass_, _ in MOVES]


@pytest.mark.parametrize(("pass_", "text"), MOVES, ids=IDS)
def test_refuses_relu_where_the_sign_of_zeros_depends_on_the_shape(pass_: Pass, text: str):
    assert refusals(pass_, text) == {"the sign of zeros depends on the shape": 1}


@pytest.mark.parametrize(("pass_", "text"), MOVES, ids=IDS)
@pytest.mark.parametrize(("dtype", "opset"), [("float16", 20), ("float", 18)])
def test_other_relus_let_everything_past(pass_: Pass, text: str, dtype: str, opset: int):
    rewritten(pass_, text.replace("float16", dtype), opset=opset)


def test_nothing_moves_past_powers_of_integers():
    text = """g (int64[3,3] x) => (int64[3,3] y) <float[3,1] c = {0, 1, 2}> { t = Transpose (x) y = Pow (t, c) }"""
    assert refusals(MoveTransposeDownRounding(), text) == {
        "the overflow of integer powers depends on the shape of the exponent": 1
    }
