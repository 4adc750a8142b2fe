"""Lower HardSigmoid to a clipped line."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.lower.elementary import line
from onnx_passes.passes.lower.operator import LowerOperator


@passes.verify.tolerance
@passes.register("lower")
class LowerHardsigmoid(LowerOperator):
    """Put a clipped line in the place of HardSigmoid.

    Rewrites: ``HardSigmoid<a, b>(x)`` → ``Clip(a * x + b, 0, 1)``.
    Refuses:  opsets below 13; an input of unknown type.
    Exactness: rounding; NaN stays NaN, where some kernels make it a number.
    """

    operator = "HardSigmoid"
    fast_math = ("nnan", "nsz")

    def body(self, op: Any, x: ir.Value, node: ir.Node) -> Any:
        """Build the clipped line."""
        return line(op, x, node.attributes.get_float("alpha", 0.2), node.attributes.get_float("beta", 0.5))
