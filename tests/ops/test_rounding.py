"""The modes of rounding; the expected numbers are those of QONNX."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_passes.numbers.rounding import round_numpy
from onnx_passes.ops.quant import Quant
from onnx_passes.ops.rounding import MODES
from tests.ops.tools import assert_computes, assert_same, one_node

NAN, INF = np.nan, np.inf
GIVEN = [5.5, 2.5, 1.5, 0.5, 0.3, 0.0, -0.0, -0.3, -0.5, -1.5, -2.5, -5.5, NAN, INF, -INF, 0.49999997]
TABLE = {
    "ROUND": [6, 2, 2, 0, 0, 0, -0.0, -0.0, -0.0, -2, -2, -6, NAN, INF, -INF, 0],
    "CEIL": [6, 3, 2, 1, 1, 0, -0.0, -0.0, -0.0, -1, -2, -5, NAN, INF, -INF, 1],
    "FLOOR": [5, 2, 1, 0, 0, 0, -0.0, -1, -1, -2, -3, -6, NAN, INF, -INF, 0],
    "UP": [6, 3, 2, 1, 1, 0, 0, -1, -1, -2, -3, -6, NAN, INF, -INF, 1],
    "DOWN": [5, 2, 1, 0, 0, 0, -0.0, -0.0, -0.0, -1, -2, -5, NAN, INF, -INF, 0],
    "HALF_UP": [6, 3, 2, 1, 0, 0, 0, -0.0, -1, -2, -3, -6, NAN, INF, -INF, 1],
    "HALF_DOWN": [5, 2, 1, 0, -0.0, -0.0, -0.0, 0.0, -0.0, -1, -2, -5, NAN, INF, -INF, -0.0],
}
SAME = {"HALF_EVEN": "ROUND", "ROUND_TO_ZERO": "DOWN"}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("mode", MODES)
def test_rounds_as_qonnx_does(mode: str, dtype: type):
    x = np.array(GIVEN, np.float32).astype(dtype)
    expected = np.array(TABLE[SAME.get(mode, mode)], dtype)
    if dtype is np.float64 and mode == "HALF_UP":
        # In float64 there is room for the sum.
        expected[-1] = 0
    assert_same(round_numpy(mode, x), expected)


@pytest.mark.parametrize("opset", [9, 10, 11, 13, 18, 23])
@pytest.mark.parametrize("mode", [*MODES, "half_up", "Floor"])
def test_nodes_round_alike(mode: str, opset: int):
    x = np.array(GIVEN, np.float32)
    one, zero, bits = (np.float32(number) for number in (1, 0, 8))
    model = one_node(Quant, x, one, zero, bits, rounding_mode=mode, opset=opset)
    # What is added to a negative zero, and the range, are Quant's.
    held = np.clip(x + zero, -128, 127)
    assert_computes(model, x, round_numpy(mode.upper(), held))


def test_nodes_round_a_negative_zero_alike():
    x, negative_zero = np.array(GIVEN, np.float32), np.float32(-0.0)
    for mode in MODES:
        for opset in (9, 13):
            model = one_node(Quant, x, np.float32(1), negative_zero, np.float32(32), rounding_mode=mode, opset=opset)
            rounded = round_numpy(mode, np.clip(x, -(2.0**31), 2.0**31).astype(np.float32))
            assert_computes(model, x, rounded - negative_zero)
