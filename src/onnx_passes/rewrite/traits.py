"""What operators have in common, in one table, so that rules need not name them one by one."""

from __future__ import annotations

import onnx_ir as ir

COMMUTATIVE = frozenset(
    {
        "Add",
        "And",
        "BitwiseAnd",
        "BitwiseOr",
        "BitwiseXor",
        "Equal",
        "Max",
        "Mean",
        "Min",
        "Mul",
        "Or",
        "Sum",
        "Xor",
    }
)
"""Operators of the default domain whose inputs may be swapped."""

EXPENSIVE = frozenset(
    {
        "Attention",
        "Conv",
        "ConvInteger",
        "ConvTranspose",
        "DFT",
        "DeformConv",
        "Einsum",
        "GRU",
        "Gemm",
        "If",
        "LSTM",
        "Loop",
        "MatMul",
        "MatMulInteger",
        "NonMaxSuppression",
        "QLinearConv",
        "QLinearMatMul",
        "RNN",
        "Resize",
        "RoiAlign",
        "STFT",
        "Scan",
        "TopK",
    }
)
"""Operators that no rule should duplicate just to get past a fork."""

RANDOM = frozenset(
    {
        "Bernoulli",
        "Dropout",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    }
)
"""Operators that may give another result each time; Dropout does in training."""


def is_commutative(domain: str, op_type: str) -> bool:
    """Tell whether the inputs of an operator may be swapped."""
    return domain == "" and op_type in COMMUTATIVE


def is_cheap(node: ir.Node) -> bool:
    """Tell whether computing a node twice costs little; operators of other domains count as expensive."""
    return node.domain == "" and node.op_type not in EXPENSIVE


def is_random(node: ir.Node) -> bool:
    """Tell whether computing a node twice may give two results; Dropout without a training mode does not."""
    if node.domain != "" or node.op_type not in RANDOM:
        return False
    return node.op_type != "Dropout" or any(value is not None for value in node.inputs[2:])
