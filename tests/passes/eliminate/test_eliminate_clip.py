from __future__ import annotations

import itertools

import numpy as np
import pytest

from onnx_passes.core.base import Context
from onnx_passes.passes.eliminate.bound_laws import EliminateClip
from tests.passes.eliminate.tools import SPECIAL, body, refusals, rewritten
from tests.passes.tools import assert_equal_results, model_of, run


def test_removes_clip_of_integers_without_bounds():
    assert body(rewritten(EliminateClip(), "g (int8[4] x) => (int8[4] y) {a = Clip (x) y = Neg (a)}")) == "y = Neg(x)"


def test_keeps_clip_of_floats_without_bounds():
    # The bounds are finite then: infinities are clipped.
    text = "g (float[4] x) => (float[4] y) {a = Clip (x) y = Neg (a)}"
    assert "infinities become finite" in refusals(EliminateClip(), text)


def test_all_orders_of_bounds_give_the_same():
    bounds = [-1.0, 0.0, 2.0, None]
    x = np.array(SPECIAL, np.float32)
    merged = 0
    for limits in itertools.product(bounds, repeat=4):
        given = {name: bound for name, bound in zip("abcd", limits, strict=True) if bound is not None}
        constants = ", ".join(f"float {name} = {{{bound}}}" for name, bound in given.items())
        a, b, c, d = (name if name in given else "" for name in "abcd")
        text = f"""g (float[12] x) => (float[12] y) {f"<{constants}>" if given else ""} {{
            m = Clip (x, {a}, {b}) y = Clip (m, {c}, {d})
        }}"""
        model = model_of(text.replace(", )", ")").replace(", )", ")"))
        expected = run(model, {"x": x})
        merged += EliminateClip().run(model, Context()).modified
        assert_equal_results(model, expected, {"x": x})
    assert merged > 200


@pytest.mark.parametrize("kind", ["float", "double", "int32"])
@pytest.mark.parametrize("bounds", [("1", "6"), ("-2", "3"), ("6", "3"), ("0", "6")])
@pytest.mark.parametrize("nodes", ["m = Relu (x) y = Clip (m, l, h)", "m = Clip (x, l, h) y = Relu (m)"])
def test_merges_relu_and_clip_in_both_orders(kind: str, bounds: tuple[str, str], nodes: str):
    # With doubles the bounds have to be doubles.
    constants = f"<{kind} l = {{{bounds[0]}}}, {kind} h = {{{bounds[1]}}}>"
    model = rewritten(EliminateClip(), f"g ({kind}[12] x) => ({kind}[12] y) {constants} {{{nodes}}}")
    assert [node.op_type for node in model.graph] == ["Clip"]


def test_bounds_below_zero_and_relu_are_zero_for_integers():
    text = """g (int32[12] x) => (int32[12] y) <int32 l = {-5}, int32 h = {-1}> {m = Clip (x, l, h) y = Relu (m)}"""
    model = rewritten(EliminateClip(), text)
    assert [value.const_value.numpy().item() for value in model.graph.initializers.values()] == [0, 0]


def test_keeps_bounds_below_zero_and_relu_of_floats():
    # The result is 0.0 everywhere (not -1), while Clip(x, 0, 0) would let -0.0 pass.
    text = """g (float[4] x) => (float[4] y) <float l = {-5.0}, float h = {-1.0}> {m = Clip (x, l, h) y = Relu (m)}"""
    assert "the sign of a zero would change" in refusals(EliminateClip(), text)


def test_keeps_bounds_that_may_be_overridden():
    text = """g (float[4] x, float a = {0.0}) => (float[4] y) <float b = {1.0}> {m = Clip (x, a) y = Clip (m, b)}"""
    assert "a bound is not a constant number" in refusals(EliminateClip(), text)


def test_keeps_zeros_of_both_signs():
    text = """g (float[4] x) => (float[4] y) <float a = {0.0}, float b = {-0.0}> {m = Clip (x, a) y = Clip (m, b)}"""
    assert "the bounds are zeros of both signs" in refusals(EliminateClip(), text)


def test_keeps_bound_that_is_no_number():
    text = """g (float[4] x) => (float[4] y) <float a = {nan}> {m = Clip (x, a) y = Clip (m)}"""
    assert "a bound is not a constant number" in refusals(EliminateClip(), text)


def test_inner_node_stays_for_others():
    text = """g (float[12] x) => (float[12] y, float[12] m) <float a = {-1.0}> {m = Relu (x) y = Clip (m, a)}"""
    assert [node.op_type for node in rewritten(EliminateClip(), text).graph] == ["Relu", "Clip"]


def test_keeps_bounds_that_are_attributes():
    text = "g (float[4] x) => (float[4] y) {m = Clip <min = 0.0> (x) y = Clip <max = 1.0> (m)}"
    assert "the bounds are attributes" in refusals(EliminateClip(), text, opset=10)
