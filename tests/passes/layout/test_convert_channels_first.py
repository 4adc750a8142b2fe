"""Networks of QONNX with channels last become ones of standard operators, and are streamlined."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.api import run_model
from tests.passes.tools import model_of, operators

GENERAL = "qonnx.custom_op.general"
LAST = "qonnx.custom_op.channels_last"
QUANT = f'{GENERAL}.Quant <signed = 1, narrow = 0, rounding_mode = "ROUND">'
CONV = f"{LAST}.Conv <kernel_shape = [3, 3], strides = [1, 1], dilations = [1, 1], pads = [1, 1, 1, 1]"
POOL = f"{LAST}.MaxPool <kernel_shape = [2, 2], strides = [2, 2], pads = [0, 0, 0, 0]>"


def numbers(*shape: int) -> str:
    array = np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)
    return f"float[{','.join(map(str, shape))}] {{name}} = {{{{{', '.join(map(str, array.reshape(-1)))}}}}}"


def separable() -> ir.Model:
    """A depthwise, a pointwise and a plain convolution, a pool and a residual addition, all with channels last."""
    held = ", ".join(
        [
            "float s = {0.113}, float r = {0.29}, float z = {0}, float b = {4}, float[4] c = {0.5, -0.5, 0.1, 0}",
            numbers(3, 3, 3, 1).format(name="w1"),
            numbers(4, 1, 1, 3).format(name="w2"),
            numbers(4, 3, 3, 4).format(name="w3"),
        ]
    )
    body = f"""
    q = {QUANT} (x, s, z, b)
    v1 = {QUANT} (w1, s, z, b) v2 = {QUANT} (w2, s, z, b) v3 = {QUANT} (w3, s, z, b)
    a1 = {CONV}, group = 3> (q, v1)
    q1 = {QUANT} (a1, r, z, b)
    a2 = {LAST}.Conv <kernel_shape = [1, 1], strides = [1, 1], dilations = [1, 1], pads = [0, 0, 0, 0], group = 1>
        (q1, v2, c)
    l = LeakyRelu <alpha = 0.1> (a2)
    q2 = {QUANT} (l, r, z, b)
    a3 = {CONV}, group = 1> (q2, v3)
    q3 = {QUANT} (a3, r, z, b)
    j = Add (q2, q3)
    p = {POOL} (j)
    y = {QUANT} (p, r, z, b)
    """
    text = f"g (float[1, 6, 6, 3] x) => (float[1, 3, 3, 4] y) <{held}> {{ {body} }}"
    return model_of(text, domains=f'"{GENERAL}" : 1, "{LAST}" : 1')


def test_standard_operators_with_few_transpositions():
    result = onnx_passes.apply(separable(), "convert-channels-first")
    found = operators(result.model.graph)
    assert LAST not in {node.domain for node in result.model.graph}
    assert (found.count("Conv"), found.count("MaxPool")) == (3, 1)
    assert found.count("Transpose") == 2, "one at the input, one at the output"


def test_streamlined_to_integers():
    before, x = separable(), np.random.default_rng(0).normal(size=(1, 6, 6, 3)).astype(np.float32)
    result = onnx_passes.apply(before, "streamline")
    assert result["check-streamlined"].fraction == 1
    assert result["check-streamlined"].macs == 6 * 6 * (3 * 9 + 4 * 3 + 4 * 4 * 9)
    assert {node.domain for node in result.model.graph} <= {"", GENERAL}
    assert operators(result.model.graph).count("Transpose") == 2
    np.testing.assert_allclose(run_model(result.model, {"x": x})["y"], run_model(before, {"x": x})["y"], atol=1e-6)


def test_macs_are_counted_as_they_are():
    result = onnx_passes.apply(separable(), "check-streamlined")
    assert result["check-streamlined"].macs == 6 * 6 * (3 * 9 + 4 * 3 + 4 * 4 * 9)


def test_nothing_to_do_without_them():
    model = model_of("g (float[1, 2] x) => (float[1, 2] y) { y = Relu (x) }")
    assert not onnx_passes.apply(model, "convert-channels-first").modified


@pytest.mark.parametrize("operator", ["BatchNormalization", "AveragePool"])
def test_other_operators(operator: str):
    call = {
        "BatchNormalization": f"{LAST}.BatchNormalization (x, n, n, z, n)",
        "AveragePool": f"{LAST}.AveragePool <kernel_shape = [2, 2], strides = [1, 1], pads = [1, 0, 0, 1]> (x)",
    }[operator]
    held = "float[2] n = {1, 4}, float[2] z = {0, 0.5}"
    text = f"g (float[1, 4, 4, 2] x) => (float[1, 4, 4, 2] y) <{held}> {{ y = {call} }}"
    before = model_of(text, domains=f'"{LAST}" : 1')
    x = np.random.default_rng(0).normal(size=(1, 4, 4, 2)).astype(np.float32)
    model = onnx_passes.apply(before, "convert-channels-first").model
    assert operators(model.graph) == ["Transpose", operator, "Transpose"]
    np.testing.assert_array_equal(run_model(model, {"x": x})["y"], run_model(before, {"x": x})["y"])
