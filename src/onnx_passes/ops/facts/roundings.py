"""Roundings of operators: how many terms they sum up, what cancels in them, and which of them round nothing."""

from __future__ import annotations

import math

import onnx_ir as ir

from onnx_passes.graph.constants import constant_tensor
from onnx_passes.graph.shapes import static_shape
from onnx_passes.graph.traits import traits_of
from onnx_passes.ops.facts.sums import terms_of

_SUMS = frozenset(
    {"AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "Einsum", "Gemm", "GlobalAveragePool", "MatMul"}
    | {"Mean", "ReduceMean", "ReduceSum", "Sum"}
)
"""Operators that add up products of their inputs."""
_CENTRED = frozenset(
    {"EmbedLayerNormalization", "GroupNormalization", "InstanceNormalization", "LayerNormalization"}
    | {"MeanVarianceNormalization", "SkipLayerNormalization"}
)
"""Operators that subtract a mean: where elements are nearly equal, little more than their rounding is left."""
_CHOICES = frozenset({"Clip", "GlobalMaxPool", "MaxPool", "ReduceMax", "ReduceMin", "TopK", "Where"})
"""Operators that return an input as it is."""
_TERMS = 256
"""Terms of a sum whose length nobody knows."""
_MEAN = 3
"""The input of BatchNormalization that is subtracted."""


def sums_up(node: ir.Node) -> bool:
    """Return whether a node adds up products of its inputs; in training mode a norm divides by its own result."""
    return node.domain == "" and node.op_type in _SUMS and not node.attributes.get_int("training_mode", 0)


def is_subtracted(node: ir.Node, index: int) -> bool:
    """Return whether a node that sums up products subtracts an input."""
    return node.op_type == "BatchNormalization" and index == _MEAN


def centres(node: ir.Node) -> bool:
    """Return whether a node subtracts the mean of its elements."""
    return node.op_type in _CENTRED


def is_exact(node: ir.Node) -> bool:
    """Return whether a node rounds nothing."""
    traits = traits_of(node)
    moves = traits.kind == "movement" or node.op_type in _CHOICES
    # Constants hold what is written in them, whether they are nodes or initializers.
    return moves or not node.inputs or (traits.exact and traits.kind == "elementwise")


def terms_summed(node: ir.Node) -> int:
    """Return how many terms an element of the result sums up."""
    match node.op_type if node.domain == "" else "":
        case "MatMul" | "Gemm" | "Conv" | "ConvTranspose":
            shape = static_shape(node.inputs[1])
            if shape is None or len(shape) < 2:
                return _TERMS if shape is None else math.prod(shape)
            return terms_of(node) or 0
        case "Einsum" | "AveragePool" | "GlobalAveragePool":
            return _TERMS
        case _ if traits_of(node).kind in ("normalization", "reduction"):
            given = static_shape(next(iter(node.inputs), None))
            return max(given) if given else _TERMS
        case _:
            return 1


_INTEGERS = frozenset({ir.DataType.INT64, ir.DataType.INT32})
_FEW = 4096
"""Larger constants are data of a layer."""


class Positions:
    """Distinguishes nodes that compute only with positions or sizes; nodes must be asked in graph order."""

    def __init__(self) -> None:
        self._found: set[ir.Value] = set()

    def only(self, node: ir.Node) -> bool:
        """Return whether all floats that a node reads are positions or sizes, or whether it casts integers."""
        if node.op_type == "Cast":
            first = node.inputs[0]
            found = first is not None and first.dtype in _INTEGERS
        else:
            given = [value for value in node.inputs if value is not None and constant_tensor(value) is None]
            floats = [value for value in given if value.dtype is not None and value.dtype.is_floating_point()]
            weights = sum(tensor.size for value in node.inputs if (tensor := constant_tensor(value)) is not None)
            found = bool(floats) and all(value in self._found for value in floats) and weights <= _FEW
        if found or node.op_type == "Range":
            self._found.update(node.outputs)
        return found
