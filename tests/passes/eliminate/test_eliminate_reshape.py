from __future__ import annotations

import numpy as np
import pytest

from onnx_passes.passes.eliminate.reshape_laws import EliminateReshape
from tests.passes.eliminate.tools import body, refusals, rewritten


@pytest.mark.parametrize(
    ("shape", "target"), [("2,3", "2, 3"), ("N,3", "0, 3"), ("N,3", "-1, 3"), ("N,M", "0, -1"), ("N,4", "0, 0")]
)
def test_removes_reshape_to_the_same_shape(shape: str, target: str):
    text = f"""g (float[{shape}] x) => (float[{shape}] y) <int64[2] s = {{{target}}}> {{
        a = Reshape (x, s) y = Neg (a)
    }}"""
    assert body(rewritten(EliminateReshape(), text)) == "y = Neg(x)"


def test_removes_reshape_of_a_scalar_to_a_scalar():
    text = "g (float x) => (float y) <int64[0] s = {}> {a = Reshape (x, s) y = Neg (a)}"
    assert body(rewritten(EliminateReshape(), text)) == "y = Neg(x)"


@pytest.mark.parametrize(("shape", "target", "out"), [("", "1", "1"), ("1", "1, 1", "1,1"), ("2,3", "3, 2", "3,2")])
def test_keeps_reshape_that_changes_rank_or_shape(shape: str, target: str, out: str):
    size = target.count(",") + 1
    text = f"""g (float{f"[{shape}]" if shape else ""} x) => (float[{out}] y) <int64[{size}] s = {{{target}}}> {{
        a = Reshape (x, s) y = Neg (a)
    }}"""
    assert refusals(EliminateReshape(), text)


def test_keeps_reshape_whose_target_may_be_overridden():
    text = "g (float[N,3] x, int64[2] s = {-1, 3}) => (float[A,B] y) {a = Reshape (x, s) y = Neg (a)}"
    assert "the shapes are not known" in refusals(EliminateReshape(), text)


@pytest.mark.parametrize("inner", ["Reshape (x, t)", "Flatten <axis = 2> (x)", "Squeeze (x, o)", "Unsqueeze (x, o)"])
def test_reads_past_what_keeps_the_order(inner: str):
    text = f"""g (float[2,1,6] x) => (float[3,4] y) <int64[2] s = {{3, -1}}, int64[1] t = {{12}}, int64[1] o = {{1}}> {{
        a = {inner} y = Reshape (a, s)
    }}"""
    assert body(rewritten(EliminateReshape(), text)) == "y = Reshape(x, s)"


def test_copied_dimensions_become_numbers():
    text = """g (float[4,6] x) => (float[3,8] y) <int64[3] t = {3, 4, 2}, int64[2] s = {0, -1}> {
        a = Reshape (x, t) y = Reshape (a, s)
    }"""
    model = rewritten(EliminateReshape(), text)
    assert [node.op_type for node in model.graph] == ["Reshape"]
    (target,) = model.graph.initializers.values()
    assert target.const_value is not None
    assert target.const_value.numpy().tolist() == [3, -1]


def test_zero_is_a_size_with_allowzero():
    text = """g (float[0,4] x) => (float[4,0] y) <int64[1] t = {0}, int64[2] s = {4, 0}> {
        a = Reshape <allowzero = 1> (x, t) y = Reshape <allowzero = 1> (a, s)
    }"""
    assert body(rewritten(EliminateReshape(), text)) == "y = Reshape<allowzero=1>(x, s)"


def test_keeps_copies_of_a_dimension_of_size_zero():
    # After Flatten the shape is (0, 4): a copied dimension is 0 there, but 2 in front of it.
    text = "g (float[2,0,4] x) => (float[0,4] y) <int64[2] s = {0, 4}> {a = Flatten <axis = 2> (x) y = Reshape (a, s)}"
    model = rewritten(EliminateReshape(), text)
    assert body(model) == "y = Flatten<axis=2>(x)"
    text = "g (float[2,0,4] x) => (float[0,2] y) <int64[2] s = {0, 2}> {a = Flatten <axis = 2> (x) y = Reshape (a, s)}"
    assert "the copied dimensions are not known" in refusals(EliminateReshape(), text)


def test_keeps_computed_target_that_may_hold_zeros():
    text = """g (float[2,6] x, int64[2] s) => (float[A,B] y) <int64[1] t = {12}> {
        a = Reshape (x, t) y = Reshape (a, s)
    }"""
    assert "the target is not constant and may copy dimensions" in refusals(EliminateReshape(), text)


def test_computed_target_without_zeros_reads_past():
    text = """g (float[2,6] x, int64[2] s) => (float[A,B] y) <int64[1] t = {12}> {
        a = Reshape (x, t) y = Reshape <allowzero = 1> (a, s)
    }"""
    feeds = {"x": np.arange(12, dtype=np.float32).reshape(2, 6), "s": np.array([4, 3])}
    assert body(rewritten(EliminateReshape(), text, feeds=feeds)) == "y = Reshape<allowzero=1>(x, s)"


def test_removes_flatten_of_two_axes():
    text = "g (float[N,M] x) => (float[N,M] y) {a = Flatten (x) b = Flatten <axis = -1> (a) y = Neg (b)}"
    assert body(rewritten(EliminateReshape(), text)) == "y = Neg(x)"


@pytest.mark.parametrize(("shape", "axis"), [("3", 0), ("2,3", 0), ("2,3", 2), ("2,3,4", 1)])
def test_keeps_flatten_that_changes_the_shape(shape: str, axis: int):
    text = f"g (float[{shape}] x) => (float[A,B] y) {{a = Flatten <axis = {axis}> (x) y = Neg (a)}}"
    assert "the shape changes, or is not known" in refusals(EliminateReshape(), text)


def test_a_computed_target_copies_sizes_that_stay_in_their_place():
    text = """g (float[N,1,M,1] x, float[N,1,M] z) => (float[N,1,M] y) <int64[1] flat = {-1}> {
        s = Shape (z) a = Reshape (x, flat) b = Reshape (a, s) y = Neg (b)
    }"""
    model = rewritten(EliminateReshape(), text)
    assert [node.op_type for node in model.graph] == ["Reshape", "Neg"]
    target = model.graph[0].inputs[1]
    assert target is not None
    assert target.const_value is not None
    assert target.const_value.numpy().tolist() == [0, 1, 0]


@pytest.mark.parametrize("z", ["M,1,N", "K,1,M"])
def test_a_computed_target_stays_where_sizes_move_or_may_differ(z: str):
    text = f"""g (float[N,1,M,1] x, float[{z}] z) => (float[{z}] y) <int64[1] flat = {{-1}}> {{
        s = Shape (z) a = Reshape (x, flat) b = Reshape (a, s) y = Neg (b)
    }}"""
    assert "the target is not constant and may copy dimensions" in refusals(EliminateReshape(), text)
