"""Lower Softmax to exponentials and their sum."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.lower.along_axes import LowerAlongAxis


@passes.verify.tolerance
@passes.register("lower")
class LowerSoftmax(LowerAlongAxis):
    """Put exponentials and their sum in the place of Softmax.

    Rewrites: ``Softmax(x)`` → ``e / ReduceSum(e)`` with ``e = Exp(x - ReduceMax(x))``, which overflows nowhere.
    Refuses:  opsets below 18; an input of unknown type or shape, or an empty one.
    Exactness: rounding.
    """

    operator = "Softmax"

    def body(self, op: Any, x: ir.Value, node: ir.Node) -> Any:
        """Build the stable form."""
        axis = [node.attributes.get_int("axis", -1)]
        exponential = op.Exp(op.Sub(x, op.ReduceMax(x, axis, keepdims=1)))
        return op.Div(exponential, op.ReduceSum(exponential, axis, keepdims=1))
