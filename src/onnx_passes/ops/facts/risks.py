"""Operators whose kernels may end the process of ONNX Runtime, or never end themselves."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.core.walk import all_nodes
from onnx_passes.graph.constants import constant, constant_tensor

_LOOPS = ("Loop", "Scan")
_SIGNALS = ("DFT", "MelWeightMatrix", "STFT")
_TRUSTING = ("Attention", "MaxRoiPool", "MaxUnpool", "RoiAlign", "RotaryEmbedding", "TensorScatter")
_STANDARD = frozenset((*_LOOPS, *_SIGNALS, *_TRUSTING))
_DIVISIONS = frozenset(("Div", "Mod"))
_CONTRIBUTED = frozenset(
    (
        *("Attention", "BeamSearch", "CropAndResize", "DecoderAttention", "DecoderMaskedMultiHeadAttention"),
        *("DecoderMaskedSelfAttention", "EmbedLayerNormalization", "GreedySearch", "GroupQueryAttention"),
        *("LinearAttention", "LongformerAttention", "MultiHeadAttention", "NGramRepeatBlock", "PackedAttention"),
        *("PackedMultiHeadAttention", "PagedAttention", "QAttention", "RotaryEmbedding", "Sampling"),
        *("SparseAttention", "WhisperBeamSearch"),
    )
)
_SUSPECTS = _STANDARD | _DIVISIONS | _CONTRIBUTED
_FLOATS = frozenset(
    ("Conv", "Erf", "Exp", "Gemm", "Log", "ReduceL2", "ReduceMean", "Sigmoid", "Softmax", "Sqrt", "Tanh")
)
"""Operators whose results are floats, or at least are never divided by as integers."""
_KEEPS_TYPE = frozenset(
    (
        *("Abs", "Add", "Clip", "Concat", "Div", "Expand", "Flatten", "Gather", "Identity", "MatMul", "Max", "Min"),
        *("Mul", "Neg", "Pow", "Reshape", "Slice", "Squeeze", "Sub", "Tile", "Transpose", "Unsqueeze", "ReduceSum"),
    )
)
_FARTHEST = 16
"""So many nodes back the element type of a divisor is looked for."""


def may_crash(model: ir.Model) -> bool:
    """Tell whether running a model may end the process, or never end itself."""
    scopes = (model.graph, *model.functions.values())
    return any(node.op_type in _SUSPECTS and _is_risky(node) for scope in scopes for node in all_nodes(scope))


def _is_risky(node: ir.Node) -> bool:
    operator = node.op_type
    if operator in _DIVISIONS:
        return node.domain == "" and not _divides_safely(node)
    if operator in _STANDARD and node.domain == "":
        return True
    return operator in _CONTRIBUTED and node.domain == "com.microsoft"


def _divides_safely(node: ir.Node) -> bool:
    """Tell whether a division is one of floats, or its divisor is known to be neither 0 nor -1."""
    if len(node.inputs) < 2 or node.inputs[1] is None:
        return True
    if any(_is_float(value) for value in (*node.outputs, *node.inputs)):
        return True
    return is_safe_divisor(node.inputs[1])


def is_safe_divisor(value: ir.Value | None) -> bool:
    """Return whether a value is constant and holds neither 0 nor -1, by which the smallest integer is not divided."""
    divisor = constant(value)
    return divisor is not None and not bool(np.any((divisor == 0) | (divisor == -1)))


def _is_float(value: ir.Value | None) -> bool:
    """Tell whether a value holds floats; where types were not inferred, the nodes before it say so."""
    for _ in range(_FARTHEST):
        if value is None:
            return False
        tensor = constant_tensor(value)
        dtype = value.dtype if tensor is None else tensor.dtype
        if dtype is not None:
            return not dtype.is_integer()
        node = value.producer()
        if node is None or node.domain != "":
            return False
        if node.op_type in _FLOATS:
            return True
        if node.op_type == "Cast":
            return not ir.DataType(node.attributes.get_int("to", ir.DataType.INT64)).is_integer()
        if node.op_type not in _KEEPS_TYPE or not node.inputs:
            return False
        value = node.inputs[0]
    return False
