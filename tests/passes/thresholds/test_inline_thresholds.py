"""Standard operators count thresholds as the node did."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_passes.passes.thresholds.inline_thresholds import InlineThresholds
from tests.passes.thresholds.tools import MT, QUANT, WEIGHTED, grid, make, results
from tests.passes.tools import apply, check, operators, run

CASES = {
    "few": (
        f'y = {MT} <out_scale: float = 2.0, data_layout: string = "NC"> (q, T)',
        {"T": [[3, 1], [2, 2], [0, 9], [-1, 5]]},
    ),
    "many": (f'y = {MT} <out_bias: float = -3.0, data_layout: string = "NC"> (q, T)', {"T": [np.arange(-30, 30)]}),
    "weights": (f"y = {WEIGHTED} (q, T, w)", {"T": [3, 1, 2], "w": [1, -2, 3]}),
}


@pytest.mark.parametrize("name", CASES)
def test_onnxruntime_runs_it_as_it_is(name: str):
    text, constants = CASES[name]
    model = make(text, constants)
    q = np.append(grid(-32, 31, 4), [[np.nan, np.inf, -np.inf, -0.0]], axis=0).astype(np.float32)
    expected = results(model, q)
    assert apply(InlineThresholds(), model)
    assert "MultiThreshold" not in operators(model.graph)
    check(model)
    np.testing.assert_array_equal(run(model, {"q": q})[0], expected)


def test_quantizers_stay():
    quant = f'a = {QUANT} <signed: int = 1, narrow: int = 0, rounding_mode: string = "ROUND"> (q, one, zero, bits)'
    model = make(f"{quant} y = {MT} (a, T)", {"one": 1, "zero": 0, "bits": 4, "T": [[0, 1]]})
    assert apply(InlineThresholds(), model)
    assert "Quant" in operators(model.graph)


def test_thresholds_that_are_computed():
    model = make(f'U = Neg(T) y = {MT} <data_layout: string = "NC"> (q, U)', {"T": [[3, 1]]})
    q = grid(-5, 5, 4)
    expected = results(model, q)
    assert apply(InlineThresholds(), model)
    np.testing.assert_array_equal(run(model, {"q": q})[0], expected)
