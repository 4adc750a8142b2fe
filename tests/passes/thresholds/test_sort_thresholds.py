"""Sorted thresholds count the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_passes.core.base import Context
from onnx_passes.graph.constants import constant
from onnx_passes.passes.thresholds.sort_thresholds import SortThresholds
from tests.passes.thresholds.tools import MT, WEIGHTED, check_integers, grid, make, results, thresholds
from tests.passes.tools import apply, operators

LAYOUT = 'data_layout: string = "NC"'


def test_sorts_every_channel():
    unsorted = [[3, 1, 2], [1, 2, 3], [-1, -1, -5], [7, 0, 7]]
    model = make(f"y = {MT} <out_bias: float = -1.0, {LAYOUT}> (q, T)", {"T": unsorted})
    check_integers(SortThresholds(), model, -32, 31, 4)
    np.testing.assert_array_equal(thresholds(model), np.sort(unsorted, axis=1))
    assert next(iter(model.graph)).attributes.get_float("out_bias") == -1


def test_leaves_alone_what_is_sorted():
    assert not apply(SortThresholds(), make(f"y = {MT} <{LAYOUT}> (q, T)", {"T": [[1, 2, 2]]}))


@pytest.mark.parametrize("domain", ["onnx.brevitas", "finn.custom_op.general"])
def test_in_every_domain(domain: str):
    model = make(f"y = {MT} <{LAYOUT}> (q, T)", {"T": [[3, 1]]})
    next(iter(model.graph)).domain = domain
    model.opset_imports[domain] = 1
    assert apply(SortThresholds(), model)
    assert next(iter(model.graph)).domain == domain


def test_weights_follow_and_equal_thresholds_become_one():
    model = make(f"y = {WEIGHTED} (q, T, w)", {"T": [[3, 1, 3], [2, 0, 1]], "w": [[1, 2, 4], [1, -1, 0]]}, shape="N,2")
    check_integers(SortThresholds(), model, -32, 31, 2)
    np.testing.assert_array_equal(thresholds(model), [[1, 3], [0, 2]])
    held = constant(next(iter(model.graph)).inputs[2])
    np.testing.assert_array_equal(held, [[2, 5], [-1, 1]])


def test_steps_that_cancel_leave_one_without_height():
    model = make(f"y = {WEIGHTED} (q, T, w)", {"T": [3, 3], "w": [1, -1]})
    check_integers(SortThresholds(), model, -32, 31, 4)
    assert thresholds(model).shape == (1,)


def test_weights_that_may_round_are_refused():
    model = make(f"y = {WEIGHTED} (q, T, w)", {"T": [3, 1], "w": [0.1, 0.3]})
    assert not apply(SortThresholds(), model)


def test_thresholds_that_are_no_numbers_are_never_reached():
    model = make(f"y = {MT} <{LAYOUT}> (q, T)", {"T": [[3, 1, 2]]})
    held = model.graph.initializers["T"]
    import onnx_ir as ir

    held.const_value = ir.Tensor(np.array([[3, np.nan, 2]], np.float32))
    check_integers(SortThresholds(), model, -32, 31, 4)


NUMBER = st.one_of(st.integers(-5, 5).map(float), st.floats(-5, 5, width=32), st.just(float("inf")))


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(NUMBER, st.integers(-2, 2)), min_size=1, max_size=20))
def test_counts_the_same_in_any_order(steps: list[tuple[float, int]]):
    places, weights = zip(*steps, strict=True)
    if float("inf") in places:
        places = tuple(min(place, 1e30) for place in places)
    for text, constants in (
        (f"y = {MT} <{LAYOUT}> (q, T)", {"T": [places]}),
        (f"y = {WEIGHTED} (q, T, w)", {"T": places, "w": weights}),
    ):
        model = make(text, constants)
        q = grid(-6, 6, 4)
        expected = results(model, q)
        SortThresholds()(model)
        np.testing.assert_array_equal(results(model, q), expected)
        assert operators(model.graph) == ["MultiThreshold"]


@pytest.mark.parametrize("rows", [[3, 1], [[[3, 1]]], [[3, 1], [2, 1], [1, 0]]])
def test_leaves_alone_what_no_node_may_have(rows: object):
    model = make(f"y = {MT} <{LAYOUT}> (q, T)", {"T": rows})
    context = Context()
    assert not SortThresholds().run(model, context).modified
    assert any("its thresholds" in reason for rule in context.record.rules for reason in rule.refused)
