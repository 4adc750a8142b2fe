"""Thresholds that are always reached, or never, are not missed."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_passes.passes.thresholds.trim_thresholds import TrimThresholds
from tests.passes.thresholds.tools import MT, WEIGHTED, check_integers, grid, make, results, thresholds
from tests.passes.tools import apply

LAYOUT = 'data_layout: string = "NC"'


def test_leaves_out_both_ends():
    model = make(f"y = {MT} <out_scale: float = 2.0, {LAYOUT}> (q, T)", {"T": [[7, -9, 0, 1]]}, datatype="INT3")
    check_integers(TrimThresholds(), model, -4, 3, 4)
    np.testing.assert_array_equal(thresholds(model), [[0, 1]])
    assert next(iter(model.graph)).attributes.get_float("out_bias") == 2


def test_keeps_as_many_as_the_channel_that_needs_most():
    rows = [[-9, -9, 0, 9], [-9, 0, 1, 9], [-9, 0, 9, 9], [-9, -9, 9, 9]]
    model = check_integers(
        TrimThresholds(), make(f"y = {MT} <{LAYOUT}> (q, T)", {"T": rows}, datatype="INT3"), -4, 3, 4
    )
    assert thresholds(model).shape == (4, 2)


@pytest.mark.parametrize("rows", [[[-9, -9]], [[9, 9]], [[-9, 9]]])
def test_one_is_always_left(rows: object):
    model = make(f"y = {MT} <{LAYOUT}> (q, T)", {"T": rows}, datatype="INT3")
    q = grid(-4, 3, 4)
    expected = results(model, q)
    apply(TrimThresholds(), model)
    assert thresholds(model).shape[1] >= 1
    np.testing.assert_array_equal(results(model, q), expected)


def test_levels_are_never_rounded_differently():
    model = make(
        f"y = {MT} <out_scale: float = 0.1, out_bias: float = 0.7, {LAYOUT}> (q, T)",
        {"T": [[-9, -9, -9, 0, 1, 2, 9]]},
        datatype="INT3",
    )
    check_integers(TrimThresholds(), model, -4, 3, 4)


def test_refuses_weights():
    assert not apply(TrimThresholds(), make(f"y = {WEIGHTED} (q, T, w)", {"T": [-9, 9], "w": [1, 2]}, datatype="INT3"))
