"""Elementwise operators whose bits do not depend on the position of an element in a tensor."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.graph.builder import Builder
from onnx_passes.graph.traits import operators

UNSTEADY = frozenset(operators("elementwise", place_dependent=True))
_RELU_IS_MAX = 18
_LEFT_OUT = frozenset({"BitCast", "Identity", "Swish"})
"""Rules need not move past Identity, which is eliminated; the others are too new for any runtime to test."""


def is_power_of_integers(node: ir.Node) -> bool:
    """Return whether results beyond the range of integers may depend on the shape of the exponent.

    ONNX Runtime multiplies if a row has one exponent, and computes with floats otherwise.
    """
    x = node.inputs[0] if node.op_type == "Pow" else None
    return x is not None and (x.dtype is None or x.dtype.is_integer())


def elementwise(*, steady: bool | None = None, arity: int | None = None) -> tuple[str, ...]:
    """Return the elementwise operators, if ``steady`` those whose bits do not depend on the position of an element."""
    names = [name for name in operators("elementwise", arity=arity) if name not in _LEFT_OUT]
    return tuple(name for name in names if steady is None or (name not in UNSTEADY) is steady)


def is_computed_as_max(op: Builder, node: ir.Node) -> bool:
    """Return whether a runtime may compute an operator by Max, which loses signs of zeros when it broadcasts.

    In opset 18 the function body of Relu is Max, and ONNX Runtime uses it for half precision.
    """
    x = node.inputs[0] if node.op_type == "Relu" else None
    return x is not None and x.dtype in (None, ir.DataType.FLOAT16) and op.opset == _RELU_IS_MAX
