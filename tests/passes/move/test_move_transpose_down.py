"""Transpositions move down past all that they commute with."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_passes.passes.move.move_transpose_down import MoveTransposeDown, MoveTransposeDownRounding
from tests.passes.move.tools import order, refusals, rewritten, rounded
from tests.passes.tools import value

SHAPE = np.array([2, 3, 5])


def dims(*sizes: int) -> str:
    return ",".join(map(str, sizes))


@pytest.mark.parametrize("perm", [(0, 2, 1), (1, 2, 0), (2, 0, 1)])
@pytest.mark.parametrize("axes", [(), (2,), (1,), (0, 2)])
def test_operands_that_are_constant_get_their_axes_put_back(perm: tuple[int, ...], axes: tuple[int, ...]):
    shape = SHAPE[list(perm)]
    sizes = [int(size) if axis in axes else 1 for axis, size in enumerate(shape)][min(axes, default=3) :]
    numbers = dims(*range(1, int(np.prod(sizes)) + 1))
    constant = f"float{f'[{dims(*sizes)}]' if sizes else ''} c = {{{numbers}}}"
    text = f"""g (float[2,3,5] x) => (float[{dims(*shape)}] y) <{constant}> {{
        t = Transpose <perm = {list(perm)}> (x) y = Sub (c, t)
    }}"""
    assert order(MoveTransposeDown(), text) == ["Sub", "Transpose"]


def test_constant_of_higher_rank_decides_the_rank_of_the_result():
    text = """g (float[2,3] x) => (float[2,3,2] y) <float[2,1,2] c = {1,2,3,4}> {
        t = Transpose (x) y = Add (t, c)
    }"""
    model = rewritten(MoveTransposeDown(), text)
    assert list(model.graph.node(1).attributes["perm"].as_ints()) == [0, 2, 1]


def test_operands_that_are_transposed_alike_share_one_transposition():
    text = """g (float[2,3] x, float[2,3] y, bool[3,2] c) => (float[3,2] z) {
        a = Transpose (x) b = Transpose <perm = [1,0]> (y) d = Mul (a, b) z = Neg (d)
    }"""
    assert order(MoveTransposeDown(), text) == ["Mul", "Neg", "Transpose"]


def test_three_operands():
    text = """g (bool[2,3] c, float[2,3] x) => (float[3,2] y) <float[1] zero = {0}> {
        a = Transpose (c) b = Transpose (x) y = Where (a, b, zero)
    }"""
    assert rounded(MoveTransposeDownRounding(), text) == ["Where", "Transpose"]


def test_where_with_a_transposition_that_moves_nothing_ends():
    text = """g (bool[1] c, float[1] x) => (float[1] y) <float[1] zero = {0}> {
        a = Transpose <perm = [0]> (c) y = Where (a, x, zero)
    }"""
    assert rounded(MoveTransposeDownRounding(), text) == ["Where"]


def test_bounds_of_clip_stay_scalars():
    text = """g (float[2,3] x) => (float[3,2] y) <float low = {-1}, float high = {2}> {
        t = Transpose (x) y = Clip (t, low, high)
    }"""
    model = rewritten(MoveTransposeDown(), text)
    assert [v.name for v in model.graph.node(0).inputs] == ["x", "low", "high"]


def test_slope_of_prelu_follows_its_channels():
    text = """g (float[2,4,4,3] x) => (float[2,3,4,4] y) <float[3,1,1] s = {0.5, 2, -1}> {
        t = Transpose <perm = [0,3,1,2]> (x) y = PRelu (t, s)
    }"""
    assert order(MoveTransposeDown(), text) == ["PRelu", "Transpose"]


def test_rank_that_is_not_known_matters_to_several_operands_only():
    unary = "g (float[2,3] x) => (float[3,2] y) {n = Neg (x) t = Transpose (n) y = Abs (t)}"
    assert [n.op_type for n in rewritten(MoveTransposeDown(), unary, infer=False).graph] == ["Neg", "Abs", "Transpose"]
    binary = (
        "g (float[2,3] x, float[3,2] z) => (float[3,2] y) {n = Neg (x) m = Abs (z) t = Transpose (n) y = Sub (t, m)}"
    )
    assert "a rank is not known" in refusals(MoveTransposeDown(), binary, infer=False)


def test_operand_that_varies_is_not_transposed():
    text = "g (float[2,3] x, float[3,2] z) => (float[3,2] y) {t = Transpose (x) y = Add (t, z)}"
    assert "an operand would have to be transposed" in refusals(MoveTransposeDown(), text)


def test_operand_with_ones_where_axes_move_stays():
    text = """g (float[2,3,4] x, float[2,1,1] z) => (float[2,4,3] y) {
        t = Transpose <perm = [0,2,1]> (x) y = Mul (z, t)
    }"""
    assert order(MoveTransposeDown(), text) == ["Mul", "Transpose"]


def test_default_that_a_caller_may_override_is_no_constant():
    text = """g (float[2,3] x, float[2] c) => (float[3,2] y) <float[2] c = {1,2}> {
        t = Transpose (x) y = Add (t, c)
    }"""
    assert "an operand would have to be transposed" in refusals(MoveTransposeDown(), text)


def test_fork_stays_unless_it_joins_again():
    forked = """g (float[2,3] x) => (float[3,2] y, float[3,2] z) {
        t = Transpose (x) y = Neg (t) z = Abs (t)
    }"""
    assert "the transposed value is used elsewhere" in refusals(MoveTransposeDown(), forked)
    output = "g (float[2,3] x) => (float[3,2] t, float[3,2] y) {t = Transpose (x) y = Neg (t)}"
    assert "the transposed value is used elsewhere" in refusals(MoveTransposeDown(), output)
    diamond = "g (float[2,3] x) => (float[3,2] y) {t = Transpose (x) r = Relu (t) y = Mul (r, t)}"
    assert order(MoveTransposeDown(), diamond) == ["Relu", "Mul", "Transpose"]


def test_shared_constant_keeps_its_axes_for_others():
    text = """g (float[2,3] x, float[3,2] z) => (float[3,2] y, float[3,2] w) <float[3,2] c = {1,2,3,4,5,6}> {
        t = Transpose (x) y = Add (t, c) w = Add (z, c)
    }"""
    model = rewritten(MoveTransposeDown(), text)
    assert value(model, "c").shape == [3, 2]


@pytest.mark.parametrize(
    ("inner", "result", "operators"),
    [
        ("ArgMax <axis = -2, keepdims = 0> (t)", (5, 3), ["ArgMax", "Transpose"]),
        ("Concat <axis = 1> (t, part, t)", (5, 5, 3), ["Concat", "Transpose"]),
        ("Slice (t, axes, two, axes)", (5, 1, 3), ["Slice", "Transpose"]),
        ("Pad (t, pads)", (5, 5, 3), ["Pad", "Transpose"]),
        ("Unsqueeze (t, axes)", (5, 1, 2, 3), ["Unsqueeze", "Transpose"]),
        ("Expand (t, target)", (2, 5, 2, 3), ["Expand", "Transpose"]),
        ("Gather <axis = 1> (t, pairs)", (5, 2, 2, 3), ["Gather", "Transpose"]),
        ("Gather <axis = 1> (t, first)", (5, 3), ["Gather", "Transpose"]),
    ],
)
def test_axes_are_mapped(inner: str, result: tuple[int, ...], operators: list[str]):
    dtype = "int64" if inner.startswith("Arg") else "float"
    text = f"""g (float[2,3,5] x) => ({dtype}[{dims(*result)}] y)
        <int64[1] axes = {{1}}, int64[1] two = {{2}}, int64[6] pads = {{0,2,0,0,1,0}}, int64[4] target = {{2,1,1,3}},
         int64[2,2] pairs = {{0,1,-1,0}}, int64 first = {{1}},
         float[5,1,3] part = {{1,2,3,4,5,6,7,8,9,10,11,12,13,14,15}}>
        {{ t = Transpose <perm = [2,0,1]> (x) y = {inner} }}"""
    assert order(MoveTransposeDown(), text) == operators


@pytest.mark.parametrize(("keep", "result"), [(1, "5,1,3"), (0, "5,3")])
def test_extremes_of_integers_only(keep: int, result: str):
    text = f"""g (int32[2,3,5] x) => (int32[{result}] y) <int64[1] axes = {{1}}> {{
        t = Transpose <perm = [2,0,1]> (x) y = ReduceMax <keepdims = {keep}> (t, axes)
    }}"""
    assert order(MoveTransposeDown(), text) == ["ReduceMax", "Transpose"]
    assert any("NaN" in reason for reason in refusals(MoveTransposeDown(), text.replace("int32", "float")))


def test_squeeze_with_and_without_axes():
    text = """g (float[1,3,5] x) => (float[5,3] y) <int64[1] axes = {-2}> {
        t = Transpose <perm = [2,0,1]> (x) y = Squeeze AXES
    }"""
    assert order(MoveTransposeDown(), text.replace("AXES", "(t, axes)")) == ["Squeeze", "Transpose"]
    assert order(MoveTransposeDown(), text.replace("AXES", "(t)")) == ["Squeeze", "Transpose"]


def test_squeeze_that_leaves_the_order_needs_no_transposition_any_more():
    text = """g (float[2,1,5] x) => (float[2,5] y) <int64[1] axes = {0}> {
        t = Transpose <perm = [1,0,2]> (x) y = Squeeze (t, axes)
    }"""
    assert order(MoveTransposeDown(), text) == ["Squeeze"]


def test_parts_of_a_split():
    text = """g (float[2,6,5] x) => (float[5,2,2] a, float[5,2,2] b, float[5,2,2] c) {
        t = Transpose <perm = [2,0,1]> (x) a, b, c = Split <axis = 2, num_outputs = 3> (t)
    }"""
    assert order(MoveTransposeDown(), text) == ["Split", "Transpose", "Transpose", "Transpose"]


def test_axes_that_are_attributes_before_opset_13():
    text = """g (float[2,3,5] x) => (float[5,3] y) {
        t = Transpose <perm = [2,0,1]> (x) s = Slice <starts = [0], ends = [1], axes = [1]> (t)
        y = Squeeze <axes = [1]> (s)
    }"""
    assert order(MoveTransposeDown(), text, opset=9) == ["Slice", "Squeeze", "Transpose"]


def test_scales_per_axis_follow_their_axis():
    text = """g (float[2,3,5] x) => (float[5,2,3] z) <float[3] s = {0.5, 1, 2}, int8[3] o = {0, 1, -1}> {
        t = Transpose <perm = [2,0,1]> (x) q = QuantizeLinear <axis = -1> (t, s, o)
        z = DequantizeLinear <axis = 2> (q, s, o)
    }"""
    model = rewritten(MoveTransposeDown(), text)
    assert [n.op_type for n in model.graph] == ["QuantizeLinear", "DequantizeLinear", "Transpose"]
    assert [n.attributes["axis"].as_int() for n in list(model.graph)[:2]] == [1, 1]


def test_computed_axes_are_refused():
    text = """g (int32[2,3] x, int64[1] a) => (int32[n,m] y) {t = Transpose (x) y = ReduceMax (t, a)}"""
    assert "the axes are not constant" in refusals(MoveTransposeDown(), text)


@pytest.mark.parametrize(
    ("inner", "result"),
    [
        ("ReduceSum (t, axes)", (5, 1, 3)),
        ("ReduceSum <keepdims = 0> (t)", ()),
        ("ReduceSum <noop_with_empty_axes = 1> (t)", (5, 2, 3)),
        ("ReduceMean <keepdims = 0> (t, axes)", (5, 3)),
        ("ReduceL2 <keepdims = 0> (t, axes)", (5, 3)),
        ("Softmax <axis = 1> (t)", (5, 2, 3)),
        ("Exp (t)", (5, 2, 3)),
    ],
)
def test_sums_and_functions_may_round_differently(inner: str, result: tuple[int, ...]):
    text = f"""g (float[2,3,5] x) => (float[{dims(*result)}] y) <int64[1] axes = {{-2}}> {{
        t = Transpose <perm = [2,0,1]> (x) y = {inner}
    }}"""
    kept = [] if result == () else ["Transpose"]
    assert rounded(MoveTransposeDownRounding(), text) == [inner.split()[0], *kept]


def test_layer_normalization_wants_its_axes_in_place():
    text = """g (float[2,3,5] x) => (float[3,2,5] y) <float[5] s = {1,2,3,4,5}> {
        t = Transpose <perm = [1,0,2]> (x) y = LayerNormalization (t, s)
    }"""
    assert rounded(MoveTransposeDownRounding(), text) == ["LayerNormalization", "Transpose"]
    moved = (
        text.replace("[1,0,2]", "[0,2,1]")
        .replace("[3,2,5] y", "[2,5,3] y")
        .replace("float[5] s = {1,2,3,4,5}", "float[3] s = {1,2,3}")
    )
    assert any("normalized axes move" in reason for reason in refusals(MoveTransposeDownRounding(), moved))


def test_softmax_of_rows_before_opset_13_is_refused():
    text = "g (float[2,3] x) => (float[3,2] y) {t = Transpose (x) y = Softmax (t)}"
    assert any("opset < 13" in reason for reason in refusals(MoveTransposeDownRounding(), text, opset=11))


def test_transpositions_go_past_forks_whose_ways_meet_again():
    text = """g (float[2,3] x) => (float[3,2] y) <float two = {2.0}, float[2] b = {1.0, -1.0}> {
        t = Transpose (x) m = Mul (t, two) r = Relu (m) n = Neg (r) a = Add (t, n) y = Add (a, b)
    }"""
    assert order(MoveTransposeDown(), text) == ["Mul", "Relu", "Neg", "Add", "Add", "Transpose"]


@pytest.mark.parametrize(
    "body",
    [
        "t = Transpose (x) m = Mul (t, two) r = Relu (m) y = Add (t, r) z = MatMul (x, r)",
        "t = Transpose (x) m = Mul (t, two) r = MatMul (m, x) z = Neg (r) y = MatMul (t, r)",
    ],
)
def test_transpositions_stay_before_forks_whose_ways_do_not_meet(body):
    text = f"g (float[3,3] x) => (float[3,3] y, float[3,3] z) <float two = {{2.0}}> {{ {body} }}"
    assert any("used elsewhere" in reason for reason in refusals(MoveTransposeDown(), text))
