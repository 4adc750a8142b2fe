"""Lower Swish to arithmetic and an exponential."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.lower.elementary import sigmoid
from onnx_passes.passes.lower.operator import LowerOperator


@passes.verify.tolerance
@passes.register("lower", aliases={"lower-swish": ""})
class LowerSilu(LowerOperator):
    """Put arithmetic and an exponential in the place of Swish.

    Rewrites: ``Swish<a>(x)`` → ``x * (1 / (1 + Exp(-a * x)))``.
    Refuses:  opsets below 24, which have no Swish; an input of unknown type.
    Exactness: rounding.
    """

    operator = "Swish"
    fuzz_hints = MappingProxyType(
        {
            "models": tuple(
                f"""<ir_version: 11, opset_import: ["" : 24]> g ({dtype}[{shape}] x) => ({dtype}[{shape}] y)
                {{ y = Swish <alpha = {alpha}> (x) }}"""
                for dtype in ("float", "double")
                for shape in ("2,3", "N,4", "2,0", "5")
                for alpha in (1.0, 1.702)
            )
        }
    )

    def body(self, op: Any, x: ir.Value, node: ir.Node) -> Any:
        """Build the product."""
        alpha = node.attributes.get_float("alpha", 1.0)
        return op.Mul(x, sigmoid(op, x if alpha == 1 else op.Mul(x, alpha)))
