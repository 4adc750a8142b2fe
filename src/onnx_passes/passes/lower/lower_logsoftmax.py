"""Lower LogSoftmax to exponentials and the logarithm of their sum."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.lower.along_axes import LowerAlongAxis


@passes.verify.tolerance
@passes.register("lower")
class LowerLogsoftmax(LowerAlongAxis):
    """Put exponentials and the logarithm of their sum in the place of LogSoftmax.

    Rewrites: ``LogSoftmax(x)`` → ``d - Log(ReduceSum(Exp(d)))`` with ``d = x - ReduceMax(x)``.
    Refuses:  opsets below 18; an input of unknown type or shape, or an empty one.
    Exactness: rounding; where there is a NaN, ONNX Runtime may return anything for the rest of its row.
    """

    operator = "LogSoftmax"
    fast_math = ("nnan", "ninf", "nsz")

    def body(self, op: Any, x: ir.Value, node: ir.Node) -> Any:
        """Build the stable form."""
        axis = [node.attributes.get_int("axis", -1)]
        shifted = op.Sub(x, op.ReduceMax(x, axis, keepdims=1))
        return op.Sub(shifted, op.Log(op.ReduceSum(op.Exp(shifted), axis, keepdims=1)))
