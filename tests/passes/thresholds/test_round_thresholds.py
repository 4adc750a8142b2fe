"""Integers reach rounded thresholds exactly when they reach those that were."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.graph.constants import constant
from onnx_passes.graph.tensor_types import datatype_of
from onnx_passes.passes.thresholds.round_thresholds import RoundThresholds
from tests.passes.thresholds.tools import MT, WEIGHTED, check_integers, make, results, thresholds
from tests.passes.tools import apply, notes_of

LAYOUT = 'data_layout: string = "NC"'
T = [[-99, 0.3, 2.5, 99], [-4, -3.5, 3, 3.5], [1e30, 0, -0.5, -1e-30], [-1e30, 4, 4.5, -4.5]]


def test_rounds_up_and_clips_to_the_range():
    model = check_integers(RoundThresholds(), make(f"y = {MT} <{LAYOUT}> (q, T)", {"T": T}, datatype="INT3"), -4, 3, 4)
    np.testing.assert_array_equal(thresholds(model), [[-4, 1, 3, 4], [-4, -3, 3, 4], [4, 0, 0, 0], [-4, 4, 4, -4]])
    value = next(iter(model.graph)).inputs[1]
    assert value is not None
    assert str(datatype_of(value)) == "INT4"


def test_bounds_of_each_channel():
    model = make(f"a = Add(q, b) y = {MT} <{LAYOUT}> (a, T)", {"b": [0, 100, -100, 5], "T": T}, datatype="INT3")
    check_integers(RoundThresholds(), model, -4, 3, 4)
    np.testing.assert_array_equal(thresholds(model)[1], [96, 96, 96, 96])
    np.testing.assert_array_equal(thresholds(model)[2], [-96, -96, -96, -96])


def test_thresholds_with_weights():
    model = make(f"y = {WEIGHTED} (q, T, w)", {"T": T, "w": [1, -2, 3, 1]}, datatype="INT3")
    check_integers(RoundThresholds(), model, -4, 3, 4)


def test_thresholds_that_others_use_stay():
    model = make(f"a = {MT} <{LAYOUT}> (q, T) b = Sin(q) c = {MT} <{LAYOUT}> (b, T) y = Add(a, c)", {"T": T})
    check_integers(RoundThresholds(), model, -32, 31, 4)
    held = [constant(node.inputs[1]) for node in model.graph if node.op_type == "MultiThreshold"]
    np.testing.assert_array_equal(np.asarray(held[1]), np.asarray(T, np.float32))


def test_thresholds_that_are_never_reached_lie_behind_the_range():
    model = make(f"y = {MT} <{LAYOUT}> (q, T)", {"T": [[1, 2]]}, datatype="INT3")
    model.graph.initializers["T"].const_value = ir.Tensor(np.array([[np.nan, np.inf]], np.float32))
    check_integers(RoundThresholds(), model, -4, 3, 4)
    np.testing.assert_array_equal(thresholds(model), [[4, 4]])


@pytest.mark.parametrize("datatype", [None, "INT30"])
def test_refuses_what_floats_may_not_hold_as_integers(datatype: str | None):
    (note,) = notes_of(RoundThresholds(), make(f"y = {MT} <{LAYOUT}> (q, T)", {"T": T}, datatype=datatype))
    assert note.endswith("its input is not known to be integer")


def test_leaves_alone_what_is_rounded():
    assert not apply(RoundThresholds(), make(f"y = {MT} <{LAYOUT}> (q, T)", {"T": [[-4, 4, 0]]}, datatype="INT3"))


def test_thresholds_of_fixed_point_numbers_are_multiples_of_their_step():
    model = make(f"y = {MT} <{LAYOUT}> (q, T)", {"T": [[-99, 0.3, 0.25, 99]]}, datatype="FIXED<6,4>")
    numbers = np.arange(-8, 8, 0.25, dtype=np.float32).reshape(16, 4)
    expected = results(model, numbers)
    assert apply(RoundThresholds(), model)
    np.testing.assert_array_equal(thresholds(model), [[-8, 0.5, 0.25, 8]])
    np.testing.assert_array_equal(results(model, numbers), expected)
