"""Multiply a sum with a constant summand out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.constants import constant, is_constant
from onnx_passes.passes.algebra.evidence import (
    combined,
    grows_by_broadcasting,
    held,
    is_copied,
    is_float,
    is_product_safe,
    is_unnoticed_at_the_limit,
    is_whole,
)
from onnx_passes.passes.eliminate.evidence import keeps_shape
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import Refusal, no, yes
from onnx_passes.rewrite.rule import Rule


@passes.verify.equality
@passes.register("algebraic")
class DistributeMul(Transformation, RewriteRuleSetPass):
    """Multiply a sum of integers with a constant summand out, so that shifts come after scales.

    Rewrites: ``(x + c) * d`` → ``x * d + c * d``.
    Refuses:  floats; constants that a caller may override; ``d`` that may widen the sum; ``c * d`` that would be larger
              than ``c`` and ``d``; a sum that others use.
    Exactness: bit-exact; integers wrap around.
    """

    needs = ("shape-inference",)
    fuzz_hints: ClassVar[Mapping[str, Any]] = {"dtypes": ["int32", "int64", "int8", "uint8"]}

    def rules(self) -> Sequence[Rule]:
        """Return the rule on integers."""
        return [_rule(is_whole, lambda summand, factor: None)]


@passes.verify.tolerance
@passes.register("algebraic")
class DistributeMulRounding(Transformation, RewriteRuleSetPass):
    """Multiply a sum of floats with a constant summand out, where nothing but rounding changes.

    Rewrites: ``(x + c) * d`` → ``x * d + c * d``.
    Refuses:  what ``distribute-mul`` refuses for its shape or use; constants that are not finite, whose product
              overflows or loses digits, or so large that the sum may leave the range.
    Exactness: rounding.
    """

    needs = ("shape-inference",)
    fast_math = ("reassoc",)
    fuzz_hints: ClassVar[Mapping[str, Any]] = {"dtypes": ["float32", "float64", "float16"]}

    def rules(self) -> Sequence[Rule]:
        """Return the rule on floats."""
        return [_rule(is_float, _keeps_range)]


def _keeps_range(summand: np.ndarray, factor: np.ndarray) -> Refusal | None:
    if not is_product_safe(summand, factor):
        return no("the product of the constants overflows or loses digits")
    if not is_unnoticed_at_the_limit(summand):
        return no("the constant is so large that a sum may leave the range")
    return None


def _rule(applies: Callable[[ir.Value], bool], guard: Callable[[np.ndarray, np.ndarray], Refusal | None]) -> Rule:
    def pattern(op: Any, x: Any, c: Any, d: Any) -> Any:
        return op.Mul(op.Add(x, c, _outputs=["inner"]), d, _outputs=["result"])

    def check(op: Match, x: ir.Value, c: ir.Value, d: ir.Value, inner: ir.Value, result: ir.Value) -> Any:
        if not applies(c):
            return no("the type is that of another pass", at=c)
        summand, factor = constant(c), constant(d)
        if summand is None or factor is None or is_constant(x):
            return no("summand and factor are not constant", at=d)
        if is_copied(c):
            return no("a large constant is used elsewhere, too", at=c)
        if not keeps_shape(inner, result, d):
            return no("the factor may widen the sum", at=d)
        if grows_by_broadcasting(combined("Mul", summand, factor), summand, factor):
            return no("the constants would grow by broadcasting", at=d)
        refusal = guard(summand, factor)
        return yes if refusal is None else refusal

    def rewrite(op: Any, x: ir.Value, c: ir.Value, d: ir.Value) -> Any:
        return op.Add(op.Mul(x, d), combined("Mul", held(c), held(d)))

    return Rule(pattern, rewrite, check, name="MulOfAdd")
