"""One word takes quantizers, with scales and activations, to thresholds."""

from __future__ import annotations

import numpy as np

import onnx_passes
from tests.passes.thresholds.tools import QUANT, grid, make, results, thresholds
from tests.passes.tools import operators


def test_quantizer_with_scale_and_zero_point():
    quant = f'y = {QUANT} <signed: int = 1, narrow: int = 0, rounding_mode: string = "ROUND"> (t, s, z, b)'
    held = {"m": [0.5, -0.25, 3, 0.1], "s": 0.3, "z": 1, "b": 3}
    model = make(f"a = Mul(q, m) t = Relu(a) {quant}", held)
    q = grid(-32, 31, 4)
    expected = results(model, q)
    found = onnx_passes.apply(model, "streamline-thresholds").model
    assert "Quant" not in operators(found.graph)
    assert operators(found.graph)[0] == "MultiThreshold"
    np.testing.assert_array_equal(results(found, q), expected)


def test_sign_bias_becomes_one_of_the_thresholds():
    quant = f'a = {QUANT} <signed: int = 0, narrow: int = 0, rounding_mode: string = "ROUND"> (q, s, z, b)'
    model = make(f"{quant} y = Add(a, c)", {"s": 1, "z": 0, "b": 2, "c": -2})
    q = grid(-32, 31, 4)
    expected = results(model, q)
    found = onnx_passes.apply(model, "streamline-thresholds").model
    (node,) = list(found.graph)
    assert node.attributes.get_float("out_bias") == -2
    assert node.attributes.get_string("out_dtype") == "INT2"
    assert thresholds(found).shape == (1, 3)
    np.testing.assert_array_equal(results(found, q), expected)
