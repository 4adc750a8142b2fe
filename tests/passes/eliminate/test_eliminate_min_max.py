from __future__ import annotations

import pytest

from onnx_passes.passes.eliminate.bound_laws import EliminateMinMax
from tests.passes.eliminate.tools import refusals, rewritten


@pytest.mark.parametrize(("op_type", "combined"), [("Max", [3.0, 2.0]), ("Min", [1.0, -4.0])])
@pytest.mark.parametrize("order", ["a, d", "d, a"])
def test_compares_with_one_constant(op_type: str, combined: list[float], order: str):
    text = f"""g (float[6,2] x) => (float[6,2] y) <float[2] c = {{1.0, 2.0}}, float[2] d = {{3.0, -4.0}}> {{
        a = {op_type} (x, c) y = {op_type} ({order})
    }}"""
    model = rewritten(EliminateMinMax(), text)
    assert [node.op_type for node in model.graph] == [op_type]
    (constant,) = model.graph.initializers.values()
    assert constant.const_value is not None
    assert constant.const_value.numpy().tolist() == combined


def test_takes_all_other_inputs_along():
    text = """g (int32[12] x, int32[12] z) => (int32[12] y) <int32 c = {1}, int32 d = {3}> {
        a = Max (c, x) y = Max (z, a, d)
    }"""
    model = rewritten(EliminateMinMax(), text)
    assert [len(node.inputs) for node in model.graph] == [3]


def test_keeps_floats_whose_zeros_would_meet_in_another_order():
    text = """g (float x) => (float[2] y) <float[2] c = {3.0, 4.0}, float[1] e = {0.0}, float d = {2.0}> {
        a = Min (x, c, e) y = Min (a, d)
    }"""
    assert "zeros of both signs may meet in another order" in refusals(EliminateMinMax(), text)


def test_keeps_single_inputs():
    text = "g (float[2] x) => (float[2] y) {a = Min (x) y = Min (a)}"
    assert not refusals(EliminateMinMax(), text)


@pytest.mark.parametrize(("c", "d"), [("0.0", "-1.0"), ("-0.0", "0.0"), ("nan", "1.0")])
def test_keeps_constants_whose_order_may_matter(c: str, d: str):
    text = (
        f"""g (float[2] x) => (float[2] y) <float c = {{{c}}}, float d = {{{d}}}> {{a = Max (x, c) y = Max (a, d)}}"""
    )
    assert "the constants cannot be combined" in refusals(EliminateMinMax(), text)


def test_keeps_constants_that_would_grow():
    text = """g (float[2,2] x) => (float[2,2] y) <float[2,1] c = {1.0, 2.0}, float[2] d = {1.0, 2.0}> {
        a = Max (x, c) y = Max (a, d)
    }"""
    assert "the constants cannot be combined" in refusals(EliminateMinMax(), text)


def test_keeps_default_that_may_be_overridden():
    text = "g (float[2] x, float c = {1.0}) => (float[2] y) <float d = {2.0}> {a = Max (x, c) y = Max (a, d)}"
    assert "not both nodes have a constant operand" in refusals(EliminateMinMax(), text)


def test_keeps_inner_maximum_that_others_use():
    text = """g (float[2] x) => (float[2] a, float[2] y) <float c = {1.0}, float d = {2.0}> {
        a = Max (x, c) y = Max (a, d)
    }"""
    assert "a value inside the match is a graph output" in refusals(EliminateMinMax(), text)
