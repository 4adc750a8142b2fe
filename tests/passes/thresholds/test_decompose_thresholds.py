"""Steps up minus steps down are the same function, and QONNX can say it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_passes.core.base import Context
from onnx_passes.passes.qonnx.export_qonnx import ExportQonnx
from onnx_passes.passes.thresholds.decompose_thresholds import DecomposeThresholds
from onnx_passes.passes.thresholds.infer_thresholds import InferThresholds
from tests.passes.thresholds.tools import WEIGHTED, check_integers, grid, make, quantized, results
from tests.passes.tools import apply, operators

CASES = {
    "counted": ({"T": [1, 2, 3]}, ["MultiThreshold"]),
    "up": ({"T": [1, 2, 3], "w": [1, 2, 3]}, ["MultiThreshold"]),
    "down": ({"T": [1, 2, 3], "w": [-1, -2, -3]}, ["MultiThreshold", "Sub"]),
    "both": ({"T": [1, 2, 3], "w": [1, 2, -1]}, ["MultiThreshold", "MultiThreshold", "Sub"]),
    "channels": (
        {"T": [[1, 2, 3], [3, 0, 1], [5, 5, 5], [-9, 0, 2]], "w": [[1, 2, -1], [1, 1, 1], [0, 0, -1], [1, -1, 1]]},
        ["MultiThreshold", "MultiThreshold", "Sub"],
    ),
    "halves": ({"T": [1, 2, 3], "w": [0.5, 1.5, -1]}, ["MultiThreshold", "MultiThreshold", "Sub"]),
}


@pytest.mark.parametrize("name", CASES)
def test_same_function(name: str):
    constants, wanted = CASES[name]
    inputs = ", ".join(("q", *constants))
    model = make(f"y = {WEIGHTED} <out_bias: float = -2.0> ({inputs})", constants)
    check_integers(DecomposeThresholds(), model, -32, 31, 4)
    assert sorted(operators(model.graph)) == wanted
    assert {node.domain for node in model.graph} <= {"", "qonnx.custom_op.general"}


@pytest.mark.parametrize(("shape", "places"), [((2, 3, 4), (3, 1)), ((2, 3, 4), (4,)), ((1, 2, 3, 4), (2, 1, 1))])
def test_channels_on_any_axis(shape: tuple[int, ...], places: tuple[int, ...]):
    rows = np.arange(2 * np.prod(places)).reshape(*places, 2) - 3
    dims = ",".join(map(str, shape))
    model = make(f"y = {WEIGHTED} (q, T, w)", {"T": rows, "w": [2, -1]}, shape=dims)
    q = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float32)
    expected = results(model, q)
    assert apply(DecomposeThresholds(), model)
    np.testing.assert_array_equal(results(model, q), expected)


@pytest.mark.parametrize(
    ("constants", "shape", "reason"),
    [
        ({"T": [1, 2], "w": [0.3, 0.5]}, "N,4", "multiples"),
        ({"T": [1, 2], "w": [1, 1e6]}, "N,4", "too many"),
        ({"T": [1, 2], "w": [0, 0]}, "N,4", "no steps"),
        ({"T": np.zeros((3, 4, 1)), "w": [1]}, "2,3,4", "vary along"),
    ],
)
def test_refuses(constants: dict[str, object], shape: str, reason: str):
    model = make(f"y = {WEIGHTED} (q, T, w)", constants, shape=shape)
    context = Context()
    assert not DecomposeThresholds().run(model, context).modified
    (rule,) = context.record.rules
    assert any(reason in refused for refused in rule.refused)


def test_functions_that_go_up_and_down_can_be_exported():
    model = quantized("a = Mul(q, s) g = Sigmoid(a) c = Mul(a, g) t = Mul(c, m)", {"s": 0.25, "m": 4})
    q = grid(-32, 31, 4)
    expected = results(model, q)
    apply(InferThresholds(), model)
    assert apply(DecomposeThresholds(), model)
    ExportQonnx()(model)
    assert {node.domain for node in model.graph} <= {"", "qonnx.custom_op.general"}
    np.testing.assert_array_equal(results(model, q), expected)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.floats(-5, 5, width=32), st.integers(-3, 3)), min_size=1, max_size=12), st.booleans())
def test_any_steps(steps: list[tuple[float, int]], halves: bool):
    places, weights = zip(*steps, strict=True)
    scale = 0.3 if halves else 1
    held = np.array(weights, np.float32) * np.float32(scale)
    model = make(f"y = {WEIGHTED} <out_bias: float = 1.5> (q, T, w)", {"T": places, "w": held})
    q = np.append(grid(-6, 6, 4), np.repeat(np.float32(places)[:, None], 4, axis=1), axis=0)
    expected = results(model, q)
    DecomposeThresholds()(model)
    np.testing.assert_array_equal(results(model, q), expected)
