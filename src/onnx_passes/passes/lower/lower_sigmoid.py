"""Lower Sigmoid to arithmetic and an exponential."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.lower.elementary import sigmoid
from onnx_passes.passes.lower.operator import LowerOperator


@passes.verify.tolerance
@passes.register("lower")
class LowerSigmoid(LowerOperator):
    """Put arithmetic and an exponential in the place of Sigmoid.

    Rewrites: ``Sigmoid(x)`` → ``1 / (1 + Exp(-x))``.
    Refuses:  opsets below 13; an input of unknown type.
    Exactness: rounding.
    """

    operator = "Sigmoid"

    def body(self, op: Any, x: ir.Value, node: ir.Node) -> Any:
        """Build the definition; the exponential may overflow, its reciprocal is zero then."""
        return sigmoid(op, x)
