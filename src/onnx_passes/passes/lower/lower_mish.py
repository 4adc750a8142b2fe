"""Lower Mish to elementary functions."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.lower.elementary import softplus
from onnx_passes.passes.lower.operator import LowerOperator


@passes.verify.tolerance
@passes.register("lower")
class LowerMish(LowerOperator):
    """Put elementary functions in the place of Mish.

    Rewrites: ``Mish(x)`` → ``x * Tanh(Relu(x) + Log(1 + Exp(-|x|)))``.
    Refuses:  opsets below 18, which have no Mish; an input of unknown type.
    Exactness: rounding; finite also where some kernels overflow.
    """

    operator = "Mish"
    fast_math = ("nnan", "ninf", "nsz")

    def body(self, op: Any, x: ir.Value, node: ir.Node) -> Any:
        """Build the product."""
        return op.Mul(x, op.Tanh(softplus(op, x)))
