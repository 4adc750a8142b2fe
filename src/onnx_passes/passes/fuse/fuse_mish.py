"""Put Mish in the place of the operators that it is made of."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import onnx_ir as ir
from onnxscript.rewriter.pattern import OrValue

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.passes.fuse.conditions import FLOAT, HALF, is_number, opset
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRulePass
from onnx_passes.rewrite.refusal import no, yes


@passes.verify.tolerance
@passes.register("fuse")
class FuseMish(Transformation, RewriteRulePass):
    """Put Mish in the place of a product with the hyperbolic tangent of a softplus.

    Rewrites: ``x * Tanh(Softplus(x))`` → ``Mish(x)``, also where the softplus is ``Log(Exp(x) + 1)``.
    Refuses:  other numbers; opsets below 18; other types than single and half precision; a value inside that is used
              elsewhere.
    Exactness: rounding.
    """

    needs = ("shape-inference",)
    fast_math = ("nsz", "reassoc", "contract")
    fuzz_hints = MappingProxyType({"constants": MappingProxyType({"one": (1.0,)})})

    def pattern(self, op: Any, x: Any, one: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Match the definition."""
        return op.Mul(x, op.Tanh(OrValue([op.Softplus(x), op.Log(op.Add(op.Exp(x), one))])))

    def check(self, op: Match, x: ir.Value, one: ir.Value | None) -> Any:
        """Look at the type, and at the number where there is one."""
        if opset(op) < 18:
            return no("Mish needs opset 18")
        if one is not None and not is_number(one, 1.0, x):
            return no("the constant is not one", at=one)
        return yes if x.dtype in (FLOAT, HALF) else no("the input is not of single or half precision", at=x)

    def rewrite(self, op: Any, x: ir.Value) -> Any:
        """Build the one operator."""
        return op.Mish(x)
