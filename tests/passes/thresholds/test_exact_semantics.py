"""Thresholds of what tails mean: real numbers, not what floats make of them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onnx_passes
from onnx_passes.numbers.rounding import edge
from onnx_passes.numbers.surds import nearest
from onnx_passes.ops.rounding import MODES
from onnx_passes.ops.semantics.exact import evaluate
from tests.passes.thresholds.tools import grid, make, results

TAILS = {
    "scale": ("t = Mul(q, s)", {"s": [0.1, 0.3, -0.15, 0.7]}),
    "bias": ("a = Mul(q, s) t = Add(a, b)", {"s": 0.1, "b": [0.05, 0.25, -0.35, 0.15]}),
    "quotient": ("a = Div(q, s) t = Sub(a, b)", {"s": [10, 3, 7, -20], "b": [0.5, 0.1, 0.3, 0.25]}),
    "bounds": ("a = Mul(q, s) b = Relu(a) t = Clip(b, l, h)", {"s": [0.1, 0.3, -0.1, 0.5], "l": 0.15, "h": 1.5}),
    "norm": (
        "t = BatchNormalization(q, gamma, beta, mean, var)",
        {"gamma": [0.5, 0.7, 1, -3], "beta": [0.5, 0, 2.5, 0.5], "mean": [3, -2, 0.5, 0], "var": [4, 3, 1, 7]},
    ),
    "slopes": ("a = Mul(q, s) t = LeakyRelu <alpha = 0.3> (a)", {"s": [0.1, 0.5, 0.3, 0.15]}),
    "sigmoid": ("a = Mul(q, s) b = Sigmoid(a) t = Mul(b, m)", {"s": 0.1, "m": [3, 5, 7, 1]}),
    "silu": ("a = Mul(q, s) b = Sigmoid(a) t = Mul(b, a)", {"s": [0.1, 0.3, 0.5, 1]}),
    "two ways": ("a = Mul(q, s) b = Relu(q) t = Sub(b, a)", {"s": [0.1, 0.3, 0.7, 0.5]}),
}
QUANT = "y = qonnx.custom_op.general.Quant <signed: int = 1, narrow: int = 0, rounding_mode: string = {}> (t, o, z, n)"


def quantized(name: str, mode: str = "ROUND", datatype: str | None = "INT6") -> ir.Model:
    body, constants = TAILS[name]
    text = f"{body} {QUANT.format(chr(34) + mode + chr(34))}"
    return make(text, {**constants, "o": 1, "z": 0, "n": 4}, datatype=datatype)


def meant(model: ir.Model, q: np.ndarray) -> np.ndarray:
    inferred = onnx_passes.apply(model, "shape-inference", verify=False).model
    return nearest(evaluate(inferred, {"q": q})["y"])


@pytest.mark.parametrize("name", TAILS)
@pytest.mark.parametrize("mode", ["ROUND", "FLOOR", "HALF_UP"])
def test_levels_of_every_integer_are_those_of_real_numbers(name: str, mode: str):
    model, q = quantized(name, mode), grid(-32, 31, 4)
    result = onnx_passes.apply(model, "infer-thresholds", verify=False)
    assert [node.op_type for node in result.model.graph][-1] == "MultiThreshold"
    assert not any("not exact" in note for step in result.record.steps for note in step.notes)
    np.testing.assert_array_equal(results(result.model, q), meant(model, q))


@pytest.mark.parametrize("name", ["scale", "bias", "norm", "sigmoid"])
def test_levels_of_floats_next_to_edges_are_those_of_real_numbers(name: str):
    model = quantized(name, datatype=None)
    after = onnx_passes.apply(model, "infer-thresholds", verify=False).model
    (node,) = [node for node in after.graph if node.op_type == "MultiThreshold"]
    assert node.inputs[1] is not None
    edges = node.inputs[1].const_value.numpy()[0][::3]  # pyright: ignore[reportOptionalMemberAccess]
    beside = np.stack([np.nextafter(edges, np.float32(-np.inf)), edges, np.nextafter(edges, np.float32(np.inf))])
    q = np.repeat(beside.reshape(-1, 1), 4, axis=1).astype(np.float32)
    q = q[np.abs(q).max(axis=1) < 100]
    np.testing.assert_array_equal(results(after, q), meant(model, q))


@given(st.sampled_from(MODES), st.fractions(min_value=-6, max_value=6, max_denominator=8), st.integers(-6, 6))
@settings(max_examples=200)
def test_edges_are_where_rounding_reaches_a_level(mode: str, number: Fraction, level: int):
    from onnx_passes.numbers.rounding import round_numpy

    assert edge(mode, level).is_passed(number) == bool(round_numpy(mode, np.array(float(number))) >= level)


def test_an_operator_without_meaning_in_real_numbers_is_named():
    model = make(f"t = Sin(q) {QUANT.format(chr(34) + 'ROUND' + chr(34))}", {"o": 1, "z": 0, "n": 4}, datatype="INT6")
    result = onnx_passes.apply(model, "infer-thresholds", verify=False)
    notes = [note for step in result.record.steps for note in step.notes if "not exact" in note]
    assert len(notes) == 1
    assert "Sin is not computed exactly" in notes[0]
