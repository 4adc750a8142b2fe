"""Put Softplus in the place of a logarithm and an exponential."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.passes.fuse.conditions import FLOAT, HALF, is_number
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRulePass
from onnx_passes.rewrite.refusal import no, yes


@passes.verify.tolerance
@passes.register("fast-math")
class FuseSoftplus(Transformation, RewriteRulePass):
    """Put Softplus in the place of the logarithm of an exponential and one.

    Rewrites: ``Log(Exp(x) + 1)`` → ``Softplus(x)``.
    Refuses:  other numbers; other types than single and half precision; a value inside that is used elsewhere.
    Exactness: rounding; where the exponential overflows, the result becomes finite.
    """

    needs = ("shape-inference",)
    fast_math = ("ninf", "nsz", "reassoc", "contract")
    fuzz_hints = MappingProxyType({"constants": MappingProxyType({"one": (1.0,)})})

    def pattern(self, op: Any, x: Any, one: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Match the definition."""
        return op.Log(op.Add(op.Exp(x), one))

    def check(self, op: Match, x: ir.Value, one: ir.Value) -> Any:
        """Look at the number and the type."""
        if x.dtype not in (FLOAT, HALF):
            return no("the input is not of single or half precision", at=x)
        return yes if is_number(one, 1.0, x) else no("the constant is not one", at=one)

    def rewrite(self, op: Any, x: ir.Value) -> Any:
        """Build the one operator."""
        return op.Softplus(x)
