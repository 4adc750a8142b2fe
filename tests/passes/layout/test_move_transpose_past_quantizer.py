"""Quantizers and thresholds work on any order of axes."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.graph.constants import constant
from tests.passes.quant.tools import reasons
from tests.passes.tools import model_of, operators, run

GENERAL = "qonnx.custom_op.general"
CONSTANTS = (
    "float one = {0.5}, float[3, 1] s = {0.5, 0.25, 1}, float z = {0}, float b = {4}, "
    "float[3, 2] t = {0, 1, -1, 2, 0.5, 0.75}, float[1, 2] u = {0, 1}, float[3, 1, 2] v = {0, 1, -1, 2, 0.5, 0.75}, "
    "float[2] w = {1, -2}"
)


def transposed(call: str, *, perm: str = "0, 2, 1", more: str = "") -> ir.Model:
    domains = f'"{GENERAL}" : 1, "onnx_passes" : 1'
    return model_of(
        f"g (float[2, 4, 3] x{more}) => (float[2, 3, 4] y) <{CONSTANTS}> "
        f"{{ h = Transpose <perm = [{perm}]> (x) y = {call} }}",
        domains=domains,
    )


@pytest.mark.parametrize(
    "call",
    [
        f"{GENERAL}.Quant <signed = 1, narrow = 0> (h, one, z, b)",
        f"{GENERAL}.Quant <signed = 1, narrow = 0> (h, s, z, b)",
        f"{GENERAL}.BipolarQuant (h, s)",
        f'{GENERAL}.MultiThreshold <out_dtype = "UINT2", data_layout = "NCW"> (h, t)',
        f'{GENERAL}.MultiThreshold <out_dtype = "UINT2", data_layout = "NCW"> (h, u)',
        "onnx_passes.MultiThreshold (h, v)",
        "onnx_passes.MultiThreshold <out_bias = 2.0> (h, v, w)",
    ],
)
def test_quantizes_before(call: str):
    x = np.random.default_rng(0).normal(size=(2, 4, 3)).astype(np.float32) * 3
    expected = run(onnx_passes.apply(transposed(call), "inline-qonnx").model, {"x": x})
    model = onnx_passes.apply(transposed(call), "move-transpose-past-quantizer").model
    assert operators(model.graph) == [call.partition(" ")[0].rpartition(".")[2], "Transpose"]
    found = run(onnx_passes.apply(model, "inline-qonnx").model, {"x": x})
    np.testing.assert_array_equal(found[0], expected[0])


def test_scales_of_channels_move_along():
    call = f"{GENERAL}.Quant <signed = 1, narrow = 0> (h, s, z, b)"
    model = onnx_passes.apply(transposed(call), "move-transpose-past-quantizer").model
    scale = constant(model.graph[0].inputs[1])
    assert scale is not None
    np.testing.assert_array_equal(scale.reshape(-1), [0.5, 0.25, 1])
    assert scale.shape[-1] == 3


@pytest.mark.parametrize(
    ("call", "more", "reason"),
    [
        (f"{GENERAL}.Quant <signed = 1, narrow = 0> (h, c, z, b)", ", float[3, 1] c", "would have to be transposed"),
        (f'{GENERAL}.MultiThreshold <data_layout = "NCW"> (h, c)', ", float[3, 2] c", "thresholds are computed"),
    ],
)
def test_refuses(call: str, more: str, reason: str):
    assert reason in reasons("move-transpose-past-quantizer", transposed(call, more=more))


def test_refuses_layouts_without_a_name():
    text = (
        f"g (float[2, 4, 3, 5] x) => (float[2, 3, 4, 5] y) <{CONSTANTS}> {{ h = Transpose <perm = [0, 2, 1, 3]> (x) "
        f'y = {GENERAL}.MultiThreshold <data_layout = "NCHW"> (h, t) }}'
    )
    model = model_of(text, domains=f'"{GENERAL}" : 1')
    assert "no name for the layout" in reasons("move-transpose-past-quantizer", model)


def test_a_transposition_that_others_use_stays():
    call = f"{GENERAL}.Quant <signed = 1, narrow = 0> (h, one, z, b) o = Neg (h)"
    text = transposed(call)
    text.graph.outputs.append(next(node for node in text.graph if node.op_type == "Neg").outputs[0])
    assert not onnx_passes.apply(text, "move-transpose-past-quantizer").steps[-1].modified
