"""Lower HardSwish to a product with a clipped line."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.lower.elementary import line
from onnx_passes.passes.lower.operator import LowerOperator


@passes.verify.tolerance
@passes.register("lower")
class LowerHardswish(LowerOperator):
    """Put a product with a clipped line in the place of HardSwish.

    Rewrites: ``HardSwish(x)`` → ``x * Clip(x / 6 + 0.5, 0, 1)``.
    Refuses:  opsets below 13; an input of unknown type.
    Exactness: rounding; NaN stays NaN, where some kernels make it a number.
    """

    operator = "HardSwish"
    fast_math = ("nnan", "nsz")

    def body(self, op: Any, x: ir.Value, node: ir.Node) -> Any:
        """Build the product."""
        return op.Mul(x, line(op, x, 1 / 6, 0.5))
