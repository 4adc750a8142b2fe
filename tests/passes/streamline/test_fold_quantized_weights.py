"""Quantized constants are what ONNX Runtime computes for them, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest

import onnx_passes
from onnx_passes.graph.constants import constant
from onnx_passes.passes.streamline.fold_quantized_weights import FoldQuantizedWeights
from tests.passes.quant.tools import assert_same_bits, computed
from tests.passes.streamline.tools import DOMAIN, network, numbers, quant
from tests.passes.tools import apply, check, operators


@pytest.mark.parametrize(
    "quantizer",
    [
        quant("w", "s"),
        quant("w", "s", 3, narrow=1),
        quant("w", "each", 3, zero="z", signed=0),
        quant("w", "s", 1),
        f'{DOMAIN}.Quant<signed=1, narrow=0, rounding_mode="FLOOR">(w, s, zero, bits4)',
        f"{DOMAIN}.IntQuant<signed=1, narrow=0>(w, s, zero, bits4)",
        f"{DOMAIN}.BipolarQuant(w, s)",
    ],
)
def test_constants_are_computed(quantizer: str):
    model = network(
        f"v = {quantizer} y = MatMul(x, v)", w=numbers(4, 3), s=0.3, each=[[0.1, 0.2, 0.4]], z=[[0.0, 1.0, 2.0]]
    )
    result = onnx_passes.apply(model, "fold-quantized-weights")
    assert operators(result.model.graph) == ["MatMul"]
    assert "w" not in result.model.graph.initializers
    check(result.model)
    x = numbers(2, 4, seed=3)
    assert_same_bits(computed(model, x=x), computed(result.model, x=x))


def test_one_behind_another():
    model = network(
        f"u = {quant('w', 's', 8)} v = {quant('u', 't', 3)} y = MatMul(x, v)", w=numbers(4, 3), s=0.1, t=0.3
    )
    result = onnx_passes.apply(model, "fold-quantized-weights")
    assert operators(result.model.graph) == ["MatMul"]
    assert_same_bits(computed(model, x=numbers(2, 4)), computed(result.model, x=numbers(2, 4)))


def test_constants_that_are_used_twice():
    model = network(
        f"v = {quant('w', 's')} a = MatMul(x, v) b = MatMul(a, v) y = Add(b, w)",
        w=numbers(4, 4),
        s=0.5,
        y="float[4,4] y",
        x="float[4,4] x",
    )
    result = onnx_passes.apply(model, "fold-quantized-weights")
    assert operators(result.model.graph) == ["MatMul", "MatMul", "Add"]
    assert "w" in result.model.graph.initializers


def test_a_quantized_constant_that_is_an_output_keeps_its_name():
    model = network(f"v = {quant('w', 's')} y = MatMul(x, v)", y="float[2,3] y, float[4,3] v", w=numbers(4, 3), s=0.5)
    result = onnx_passes.apply(model, "fold-quantized-weights")
    assert [value.name for value in result.model.graph.outputs] == ["y", "v"]
    assert_same_bits(computed(model, x=numbers(2, 4)), computed(result.model, x=numbers(2, 4)))


@pytest.mark.parametrize(
    ("quantizer", "x"),
    [
        (quant("x", "s"), "float[4,3] x"),
        (quant("w", "x"), "float x"),
        (quant("w", "s"), "float[4,3] x, float s"),
    ],
)
def test_computed_and_overridable_parameters_stay(quantizer: str, x: str):
    model = network(f"v = {quantizer} a = Add(v, x) y = Neg(a)", x, "float[4,3] y", w=numbers(4, 3), s=0.5)
    assert not apply(FoldQuantizedWeights(), model)


def test_integers_with_unit_scale_stay_integers():
    model = network(f"v = {quant('w', 'one', 3)} y = MatMul(x, v)", w=numbers(4, 3), one=1.0)
    result = onnx_passes.apply(model, "fold-quantized-weights")
    (node,) = result.model.graph
    held = constant(node.inputs[1])
    assert held is not None
    np.testing.assert_array_equal(held, np.clip(np.rint(numbers(4, 3)), -4, 3))
