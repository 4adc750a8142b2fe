"""Models with operators of ONNX Runtime, and with element types of today's weights."""

from __future__ import annotations

import re

import numpy as np
import onnx_ir as ir

HEAD = '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>'
X = "float[B,3,8] x"


def _calls(call: str, inputs: str = X, outputs: str = "y") -> str:
    declared = ", ".join(f"{output} " for output in outputs.split(", ") if output)
    results = "" if re.match(r"\w+ =", call) else f"{outputs} = "
    return f"g ({inputs}) => ({declared}) {{ {results}{call} }}"


CALLS = {
    "Attention": _calls("com.microsoft.Attention <num_heads = 2> (x, w0, w1)", f"{X}, float[8,24] w0, float[24] w1"),
    "AttentionPast": _calls(
        "com.microsoft.Attention <num_heads = 2, unidirectional = 1> (x, w0, w1, , p)",
        f"{X}, float[8,24] w0, float[24] w1, float[2,B,2,5,4] p",
        "y, q",
    ),
    "MultiHeadAttention": _calls(
        "com.microsoft.MultiHeadAttention <num_heads = 2> (x, k, v)", f"{X}, float[B,5,8] k, float[B,5,8] v"
    ),
    "MultiHeadAttentionPast": _calls(
        "com.microsoft.MultiHeadAttention <num_heads = 2> (x, k, v, , , , p, q)",
        f"{X}, float[B,3,8] k, float[B,3,8] v, float[B,2,4,4] p, float[B,2,4,4] q",
        "y, r, s",
    ),
    "GroupQueryAttention": _calls(
        "com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2> (x, k, v, , , l, t)",
        "float[1,3,32] x, float[1,3,16] k, float[1,3,16] v, int32[1] l, int32 t",
        "y, r, s",
    ),
    "SkipLayerNormalization": _calls(
        "com.microsoft.SkipLayerNormalization (x, s, w0, w1, w2)",
        f"{X}, float[B,3,8] s, float[8] w0, float[8] w1, float[8] w2",
        "y, , , z",
    ),
    "SkipSimplifiedLayerNormalization": _calls(
        "com.microsoft.SkipSimplifiedLayerNormalization (x, s, w0)", f"{X}, float[B,3,8] s, float[8] w0"
    ),
    "SimplifiedLayerNormalization": _calls("SimplifiedLayerNormalization (x, w0)", f"{X}, float[8] w0"),
    "EmbedLayerNormalization": _calls(
        "com.microsoft.EmbedLayerNormalization (i, , w0, w1, , w2, w3)",
        "int32[B,3] i, float[9,8] w0, float[4,8] w1, float[8] w2, float[8] w3",
        "y, z",
    ),
    "FastGelu": _calls("com.microsoft.FastGelu (x, w0)", f"{X}, float[8] w0"),
    "BiasGelu": _calls("com.microsoft.BiasGelu (x, w0)", f"{X}, float[8] w0"),
    "QuickGelu": _calls("com.microsoft.QuickGelu <alpha = 1.702> (x)"),
    "Gelu": _calls("com.microsoft.Gelu (x)"),
    "RotaryEmbedding": _calls(
        "com.microsoft.RotaryEmbedding <interleaved = 1> (x, i, w0, w1)",
        "float[B,2,3,4] x, int64[1] i, float[8,2] w0, float[8,2] w1",
    ),
    "FusedConv": _calls(
        'com.microsoft.FusedConv <activation = "Relu", pads = [1,1,1,1], strides = [2,2]> (x, w0, w1)',
        "float[B,2,6,6] x, float[4,2,3,3] w0, float[4] w1",
    ),
    "FusedMatMul": _calls("com.microsoft.FusedMatMul <alpha = 0.5, transB = 1> (x, w0)", f"{X}, float[5,8] w0"),
    "FusedGemm": _calls(
        'com.microsoft.FusedGemm <activation = "Relu", transB = 1> (x, w0, w1)',
        "float[B,8] x, float[5,8] w0, float[5] w1",
    ),
    "MatMulNBits": _calls(
        "com.microsoft.MatMulNBits <K = 32, N = 5, bits = 4, block_size = 16> (x, w0, w1)",
        "float[B,3,32] x, uint8[5,2,8] w0, float[10] w1",
    ),
    "MatMulNBitsZeroPoints": _calls(
        "com.microsoft.MatMulNBits <K = 32, N = 6, bits = 4, block_size = 16> (x, w0, w1, w2)",
        "float[B,3,32] x, uint8[6,2,8] w0, float[12] w1, uint8[6] w2",
    ),
    "GatherBlockQuantized": _calls(
        "com.microsoft.GatherBlockQuantized <block_size = 16> (w0, i, w1)",
        "int64[B] i, int4[6,32] w0, float[6,2] w1",
    ),
    "DynamicQuantizeMatMul": _calls(
        "com.microsoft.DynamicQuantizeMatMul (x, w0, w1)", f"{X}, int8[8,5] w0, float[5] w1"
    ),
    "MatMulIntegerToFloat": _calls(
        "com.microsoft.MatMulIntegerToFloat (u, w0, w1, w2)", "uint8[B,8] u, int8[8,5] w0, float w1, float w2"
    ),
    "QLinearAdd": _calls(
        "com.microsoft.QLinearAdd (u, w0, w1, v, w0, w1, w0, w1)", "uint8[B,8] u, uint8[8] v, float w0, uint8 w1"
    ),
    "QLinearConcat": _calls(
        "com.microsoft.QLinearConcat <axis = 1> (w0, w1, u, w0, w1, v, w0, w1)",
        "uint8[B,8] u, uint8[B,3] v, float w0, uint8 w1",
    ),
    "QLinearSoftmax": _calls(
        "com.microsoft.QLinearSoftmax <axis = -1, opset = 13> (u, w0, w1, w0, w1)", "uint8[B,8] u, float w0, uint8 w1"
    ),
    "QLinearSigmoid": _calls("com.microsoft.QLinearSigmoid (u, w0, w1, w0, w1)", "uint8[B,8] u, float w0, uint8 w1"),
    "QLinearGlobalAveragePool": _calls(
        "com.microsoft.QLinearGlobalAveragePool (u, w0, w1, w0, w1)", "uint8[B,2,4,4] u, float w0, uint8 w1"
    ),
    "QGemm": _calls(
        "com.microsoft.QGemm <transB = 1> (u, w0, w1, w2, w0, w3, , w0, w1)",
        "uint8[B,8] u, float w0, uint8 w1, int8[5,8] w2, int8 w3",
    ),
    "QuantizeLinear": _calls("com.microsoft.QuantizeLinear (x, w0, w1)", f"{X}, float w0, uint16 w1"),
    "NhwcMaxPool": _calls("com.microsoft.NhwcMaxPool <kernel_shape = [2,2], strides = [2,2]> (u)", "uint8[B,4,4,3] u"),
}
"""One call of each operator; inputs named ``w…`` become weights."""

TYPES = {
    "int4 blocks": _calls(
        "d = DequantizeLinear <axis = 0, block_size = 16> (w0, w1) y = MatMul (x, d)",
        "float[B,3,32] x, int4[32,6] w0, float[2,6] w1",
    ),
    "uint4 blocks with zero points": _calls(
        "d = DequantizeLinear <axis = 0, block_size = 16> (w0, w1, w2) y = MatMul (x, d)",
        "float[B,3,32] x, uint4[32,6] w0, float[2,6] w1, uint4[2,6] w2",
    ),
    "int4 columns": _calls(
        "d = DequantizeLinear <axis = 1> (w0, w1) y = MatMul (x, d)",
        "float[B,3,32] x, int4[32,6] w0, float[6] w1",
    ),
    "float8": _calls(
        "q = QuantizeLinear <output_dtype = 17> (x, w0) d = DequantizeLinear (q, w0) y = MatMul (d, w2)",
        "float[B,8] x, float w0, float[8,5] w2",
    ),
    "float8 weight": _calls(
        "d = DequantizeLinear (w0, w1) y = MatMul (x, d)", "float[B,8] x, float8e5m2[8,5] w0, float w1"
    ),
    "bfloat16": _calls(
        "a = Cast <to = 16> (x) b = Cast <to = 1> (a) c = Cast <to = 1> (w0) y = MatMul (b, c)",
        "float[B,8] x, bfloat16[8,5] w0",
    ),
    "int4 through Cast": _calls("c = Cast <to = 1> (w0) y = MatMul (x, c)", "float[B,8] x, int4[8,5] w0"),
}
"""Weights in blocks of few bits, and floats of few bits."""


def build(text: str, seed: int = 0) -> ir.Model:
    """Parse a model, and give random weights to the inputs that stand for some."""
    model = ir.from_onnx_text(f"{HEAD} {text}")
    random = np.random.default_rng(seed)
    for value in [value for value in model.graph.inputs if str(value.name).startswith("w")]:
        model.graph.inputs.remove(value)
        assert value.shape is not None
        assert value.dtype is not None
        shape = tuple(int(dim) for dim in value.shape.numpy())
        value.const_value = ir.Tensor(_draw(random, value.dtype, shape), dtype=value.dtype, name=value.name)
        model.graph.register_initializer(value)
    return model


def _draw(random: np.random.Generator, dtype: ir.DataType, shape: tuple[int, ...]) -> np.ndarray:
    if dtype.is_integer():
        return random.integers(0, 7 if dtype.bitwidth < 8 else 127, shape).astype(dtype.numpy())
    return random.uniform(0.05, 0.9, shape).astype(np.float32).astype(dtype.numpy())
