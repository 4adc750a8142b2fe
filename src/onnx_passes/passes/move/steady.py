"""Which operators give every element the same bits, wherever in a tensor it is."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.graph.builder import Builder
from onnx_passes.graph.traits import operators

UNSTEADY = frozenset(operators("elementwise", place_dependent=True))
_RELU_IS_MAX = 18
_LEFT_OUT = frozenset({"BitCast", "Identity", "Swish"})
"""Nothing need move past Identity, which vanishes; the others are too new for any runtime to show what they do."""


def is_power_of_integers(node: ir.Node) -> bool:
    """Tell whether results beyond the range of integers may depend on the shape of the exponent.

    ONNX Runtime multiplies where a row has one exponent, and computes with floats otherwise.
    """
    x = node.inputs[0] if node.op_type == "Pow" else None
    return x is not None and (x.dtype is None or x.dtype.is_integer())


def elementwise(*, steady: bool | None = None, arity: int | None = None) -> tuple[str, ...]:
    """List the elementwise operators whose results do not depend, or may depend, on the place of an element."""
    names = [name for name in operators("elementwise", arity=arity) if name not in _LEFT_OUT]
    return tuple(name for name in names if steady is None or (name not in UNSTEADY) is steady)


def is_computed_as_max(op: Builder, node: ir.Node) -> bool:
    """Tell whether a runtime may compute an operator by Max, which loses the sign of some zeros when it broadcasts.

    In opset 18 the definition of Relu is one, and ONNX Runtime uses it for half precision.
    """
    x = node.inputs[0] if node.op_type == "Relu" else None
    return x is not None and x.dtype in (None, ir.DataType.FLOAT16) and op.opset == _RELU_IS_MAX
