"""Multiply-accumulates and operations of single layers, counted by hand."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from onnx_passes import api
from onnx_passes.analysis.cost import ModelCost
from onnx_passes.ops.facts.work import WORK


def cost(body: str, inputs: str, *, opset: int = 18, domains: str = "") -> ModelCost:
    imports = f'"": {opset}' + (f", {domains}" if domains else "")
    text = f"<ir_version: 10, opset_import: [{imports}]> g ({inputs}) => (y) {{ {body} }}"
    return api.apply(ir.from_onnx_text(text), "cost", verify=False)["cost"]


LAYERS = {
    # 16 * 14 * 14 results of 8 * 3 * 3 products each.
    "conv": ("y = Conv <pads = [1, 1, 1, 1]> (x, w)", "float[1, 8, 14, 14] x, float[16, 8, 3, 3] w", 225_792, 0),
    "conv with bias": ("y = Conv (x, w, b)", "float[2, 3, 5] x, float[4, 3, 2] w, float[4] b", 2 * 4 * 4 * 6, 32),
    "depthwise conv": ("y = Conv <group = 8> (x, w)", "float[1, 8, 4, 4] x, float[8, 1, 3, 3] w", 8 * 4 * 9, 0),
    "strided conv": ("y = Conv <strides = [2, 2]> (x, w)", "float[1, 3, 9, 9] x, float[4, 3, 3, 3] w", 4 * 16 * 27, 0),
    "conv transpose": (
        "y = ConvTranspose <strides = [2, 2]> (x, w)",
        "float[1, 8, 4, 4] x, float[8, 6, 2, 2] w",
        4 * 4 * 8 * 6 * 4,
        0,
    ),
    "gemm": ("y = Gemm (x, w, b)", "float[2, 10] x, float[10, 7] w, float[7] b", 140, 14),
    "gemm transposed": ("y = Gemm <transA = 1, transB = 1> (x, w)", "float[10, 2] x, float[7, 10] w", 140, 0),
    "gemm scaled": ("y = Gemm <alpha = 0.5> (x, w)", "float[2, 10] x, float[10, 7] w", 140, 14),
    "matmul": ("y = MatMul (x, w)", "float[3, 2, 10] x, float[10, 7] w", 3 * 2 * 10 * 7, 0),
    "matmul broadcast": ("y = MatMul (x, w)", "float[5, 1, 2, 10] x, float[3, 10, 7] w", 5 * 3 * 2 * 10 * 7, 0),
    "vector product": ("y = MatMul (x, w)", "float[10] x, float[10] w", 10, 0),
    "matmul integer": ("y = MatMulInteger (x, w)", "uint8[2, 10] x, int8[10, 7] w", 140, 0),
    "conv integer": ("y = ConvInteger (x, w)", "uint8[1, 2, 4, 4] x, uint8[3, 2, 2, 2] w", 3 * 9 * 8, 0),
    "einsum": (
        'y = Einsum <equation = "bhid,bhjd->bhij"> (x, w)',
        "float[2, 4, 5, 8] x, float[2, 4, 6, 8] w",
        2 * 4 * 5 * 6 * 8,
        0,
    ),
    "einsum with ellipsis": (
        'y = Einsum <equation = "...ij,jk->...ik"> (x, w)',
        "float[3, 2, 4, 5] x, float[5, 6] w",
        3 * 2 * 4 * 5 * 6,
        0,
    ),
    "trace": ('y = Einsum <equation = "ii->"> (x)', "float[5, 5] x", 0, 5),
    # 7 steps, batch 2, 4 gates, 5 hidden: 3 inputs and 5 states each.
    "lstm": (
        "y, h, c = LSTM <hidden_size = 5> (x, w, r)",
        "float[7, 2, 3] x, float[1, 20, 3] w, float[1, 20, 5] r",
        7 * 2 * 4 * 5 * (3 + 5),
        7 * 2 * 5 * 17,
    ),
    "two-way gru": (
        'y, h = GRU <hidden_size = 5, direction = "bidirectional"> (x, w, r)',
        "float[7, 2, 3] x, float[2, 15, 3] w, float[2, 15, 5] r",
        2 * 7 * 2 * 3 * 5 * (3 + 5),
        2 * 7 * 2 * 5 * 13,
    ),
    "relu": ("y = Relu (x)", "float[3, 4] x", 0, 12),
    "broadcast add": ("y = Add (x, w)", "float[3, 1] x, float[4] w", 0, 12),
    "sum of three": ("y = Sum (x, x, x)", "float[3, 4] x", 0, 24),
    "reduction": ("y = ReduceMean <keepdims = 0> (x)", "float[3, 4] x", 0, 12),
    "softmax": ("y = Softmax (x)", "float[3, 4] x", 0, 60),
    "pooling": ("y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)", "float[1, 3, 4, 4] x", 0, 3 * 4 * 4),
    "global pooling": ("y = GlobalAveragePool (x)", "float[1, 3, 4, 4] x", 0, 48),
    "movement": ("y = Transpose (x)", "float[3, 4] x", 0, 0),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layer(name):
    body, inputs, macs, operations = LAYERS[name]
    found = cost(body, inputs)
    assert (found.macs, found.operations) == (macs, operations)
    assert not found.unknown
    assert not found.uncounted


def test_attention_of_given_heads():
    shapes = "float[2, 5, 24] q, float[2, 7, 24] k, float[2, 7, 32] v"
    found = cost("y = Attention <q_num_heads = 4, kv_num_heads = 4> (q, k, v)", shapes, opset=23)
    assert found.macs == 2 * 4 * 5 * 7 * (6 + 8)
    assert found.operations == 2 * 4 * 5 * 7 * 6


def test_attention_in_four_dimensions():
    shapes = "float[2, 4, 5, 6] q, float[2, 4, 7, 6] k, float[2, 4, 7, 8] v"
    assert cost("y = Attention (q, k, v)", shapes, opset=23).macs == 2 * 4 * 5 * 7 * (6 + 8)


def test_quantized_conv_is_a_conv():
    shapes = "uint8[1, 2, 4, 4] x, float s, uint8 z, int8[3, 2, 2, 2] w, int8 wz, int32[3] b"
    found = cost("y = QLinearConv (x, s, z, w, s, wz, s, z, b)", shapes)
    assert (found.macs, found.operations) == (3 * 9 * 8, 27)


def test_thresholds_are_comparisons():
    found = cost(
        "y = qonnx.custom_op.general.MultiThreshold (x, t)",
        "float[1, 4, 2, 2] x, float[4, 15] t",
        domains='"qonnx.custom_op.general": 1',
    )
    assert found.operations == 16 * 15


def test_macs_are_formulas_of_dynamic_dimensions():
    found = cost("y = MatMul (x, w)", "float[N, S, 10] x, float[10, 7] w")
    assert str(found.macs) == "70*N*S"
    assert found.symbols == ("N", "S")


def test_an_operator_without_a_formula_is_named():
    found = cost("y = other.Thing (x)", "float[2] x", domains='"other": 1')
    assert found.uncounted == {"other::Thing": 1}


def test_a_node_without_shapes_is_named():
    found = cost("z = other.Thing (x)  y = Relu (z)", "float[2] x", domains='"other": 1')
    assert [(layer.operator, layer.unknown) for layer in found.unknown][-1] == (
        "Relu",
        "the shape of 'y' is not known",
    )
    assert found.layers[-1].operations is None


def test_every_standard_operator_with_a_formula_exists():
    import onnx

    known = {schema.name for schema in onnx.defs.get_all_schemas()}
    assert set(WORK.standard()) <= known
