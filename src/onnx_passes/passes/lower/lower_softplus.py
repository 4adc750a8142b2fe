"""Lower Softplus to a logarithm and an exponential."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.lower.elementary import softplus
from onnx_passes.passes.lower.operator import LowerOperator


@passes.verify.tolerance
@passes.register("lower")
class LowerSoftplus(LowerOperator):
    """Put a logarithm and an exponential in the place of Softplus.

    Rewrites: ``Softplus(x)`` → ``Relu(x) + Log(1 + Exp(-|x|))``, which overflows nowhere.
    Refuses:  opsets below 13; an input of unknown type.
    Exactness: rounding; finite also where some kernels overflow.
    """

    operator = "Softplus"
    fast_math = ("ninf", "nsz")

    def body(self, op: Any, x: ir.Value, node: ir.Node) -> Any:
        """Build the stable form."""
        return softplus(op, x)
