"""What keeps the order of elements moves down past elementwise operators."""

from __future__ import annotations

import pytest

from onnx_passes.passes.move.move_reshape_down import MoveReshapeDown, MoveReshapeDownRounding
from tests.passes.move.tools import order, refusals, rewritten, rounded


@pytest.mark.parametrize(
    ("mover", "source", "result"),
    [
        ("Reshape (x, s)", "2,6", "3,4"),
        ("Flatten <axis = 2> (x)", "2,3,2", "6,2"),
        ("Squeeze (x, axis)", "2,1,3", "2,3"),
        ("Unsqueeze (x, axis)", "2,3", "2,1,3"),
    ],
)
def test_all_movers_past_one_operand(mover: str, source: str, result: str):
    text = f"""g (float[{source}] x) => (float[{result}] y) <int64[2] s = {{3,-1}}, int64[1] axis = {{1}}> {{
        m = {mover} y = Tanh (m)
    }}"""
    assert order(MoveReshapeDown(), text) == ["Tanh", mover.split()[0]]


@pytest.mark.parametrize("outer", ["Relu (r)", "Add (r, r)"])
def test_scalar_keeps_its_new_axis(outer: str):
    text = f"g (float x) => (float[1] y) <int64[1] s = {{1}}> {{r = Reshape (x, s) y = {outer}}}"
    model = rewritten(MoveReshapeDown(), text)
    assert [node.op_type for node in model.graph] == [outer.split()[0], "Reshape"]
    assert model.graph.outputs[0].shape == [1]


@pytest.mark.parametrize(
    "constant",
    ["float c = {2}", "float[1] c = {2}", "float[1,1] c = {2}", "float[4] c = {1,2,3,4}", "float[1,4] c = {1,2,3,4}"],
)
def test_operands_that_fit_before_and_after(constant: str):
    text = f"""g (float[2,3,4] x) => (float[6,4] y) <int64[2] s = {{-1,4}}, {constant}> {{
        r = Reshape (x, s) y = Sub (c, r)
    }}"""
    assert order(MoveReshapeDown(), text) == ["Sub", "Reshape"]


def test_one_element_of_a_rank_that_does_not_fit_becomes_a_scalar():
    text = """g (float[4] x) => (float[2,2] y) <int64[2] s = {2,2}, float[1,1] c = {3}> {
        r = Reshape (x, s) y = Mul (r, c)
    }"""
    assert order(MoveReshapeDown(), text) == ["Mul", "Reshape"]


def test_constant_of_the_same_shape_is_reshaped_back():
    text = """g (float[4] x) => (float[2,2] y) <int64[2] s = {2,2}, float[2,2] c = {1,2,3,4}> {
        r = Reshape (x, s) y = Mul (r, c)
    }"""
    model = rewritten(MoveReshapeDown(), text)
    assert next(iter(model.graph)).inputs[1].shape == [4]


def test_operands_that_are_reshaped_alike():
    text = """g (float[N,6] x, float[N,6] z) => (float[N,2,3] y) <int64[3] s = {0,2,3}> {
        r = Reshape (x, s) t = Reshape (z, s) y = Mul (r, t)
    }"""
    assert order(MoveReshapeDown(), text) == ["Mul", "Reshape"]


@pytest.mark.parametrize(
    ("other", "result"),
    [("float[6,4]", "6,4"), ("float[6,1]", "6,4"), ("float[1,1,1]", "1,6,4"), ("float[2,6,4]", "2,6,4")],
)
def test_operands_that_may_not_fit_are_refused(other: str, result: str):
    text = f"""g (float[2,3,4] x, {other} z) => (float[{result}] y) <int64[2] s = {{-1,4}}> {{
        r = Reshape (x, s) y = Add (r, z)
    }}"""
    assert "an operand is not known to broadcast before the reshape" in refusals(MoveReshapeDown(), text)


def test_operand_that_would_widen_an_axis_of_one_is_refused():
    text = """g (float[3,1] x, float[4] z) => (float[1,3,4] y) <int64[3] s = {1,3,1}> {
        r = Reshape (x, s) y = Add (r, z)
    }"""
    assert "an operand is not known to broadcast before the reshape" in refusals(MoveReshapeDown(), text)


def test_reshape_that_is_used_elsewhere_stays():
    text = """g (float[4] x) => (float[2,2] y, float[2,2] r) <int64[2] s = {2,2}> {r = Reshape (x, s) y = Neg (r)}"""
    assert "the reshaped value is used elsewhere" in refusals(MoveReshapeDown(), text)


def test_maximum_that_broadcasts_in_another_way_may_change_the_sign_of_zeros():
    text = """g (float[2] x) => (float[2,1] y) <int64[1] axis = {1}, float zero = {0}> {
        u = Unsqueeze (x, axis) y = Max (u, zero)
    }"""
    assert rounded(MoveReshapeDownRounding(), text) == ["Max", "Unsqueeze"]
