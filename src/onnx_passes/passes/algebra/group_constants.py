"""Bring constants of an associative operator together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.arithmetic import (
    cancels,
    combined,
    grows_by_broadcasting,
    is_product_safe,
    is_unnoticed_at_the_limit,
    wide,
)
from onnx_passes.graph.constants import constant, grows, held, is_constant
from onnx_passes.graph.shapes import is_discrete, is_float, is_whole, keeps_shape
from onnx_passes.graph.traits import operators
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import Refusal, no, yes
from onnx_passes.rewrite.rule import Rule

Guard = Callable[[np.ndarray, np.ndarray | None], Refusal | None]
"""Says what speaks against grouping two constants, or against moving one past another operand."""


@passes.verify.equality
@passes.register("algebraic")
class GroupConstants(Transformation, RewriteRuleSetPass):
    """Reassociate integer and boolean operators so that their constants meet and fold.

    Rewrites: ``(x ∘ c) ∘ d`` → ``x ∘ (c ∘ d)`` and ``(x ∘ c) ∘ y`` → ``(x ∘ y) ∘ c`` for ``Add``, ``Mul``, ``And``,
              ``Or``, ``Xor``, ``BitwiseAnd``, ``BitwiseOr``, ``BitwiseXor``; ``(x / c) / d`` → ``x / (c * d)``.
    Refuses:  floats; constants that a caller may override, or that would grow by broadcasting; large ones that others
              use, too; ``y`` that may widen ``x ∘ c``; divisors that are not positive or whose product does not fit;
              an inner result that others use.
    Exactness: bit-exact; integers wrap around.
    """

    needs = ("shape-inference",)
    fuzz_hints = hints(dtypes=["int32", "int64", "int8", "uint8", "bool"])

    def rules(self) -> Sequence[Rule]:
        """Make a rule for each associative operator, and the one for division."""
        names = operators("elementwise", arity=2, associative=True)
        return [*(_rule(name, is_discrete, _allow) for name in names), Rule(_twice, _divide_once, _fits, name="Div")]


@passes.verify.tolerance
@passes.register("algebraic")
class GroupConstantsRounding(Transformation, RewriteRuleSetPass):
    """Reassociate float sums and products so that constants fold, where only rounding changes.

    Rewrites: ``(x ∘ c) ∘ d`` → ``x ∘ (c ∘ d)`` for ``Add`` and ``Mul``; ``(x + c) + y`` → ``(x + y) + c``.
    Refuses:  what ``group-constants`` refuses for its shape or use; constants that are not finite; products that
              overflow, lose digits or shrink after they grew (``x * 4 * 0.5`` may overflow on the way); summands so
              large that they lead out of range; summands that cancel, as in the rounding ``(x + 12582912) - 12582912``.
    Exactness: rounding.
    """

    needs = ("shape-inference",)
    fast_math = ("reassoc",)
    fuzz_hints = hints(dtypes=["float32", "float64", "float16"])

    def rules(self) -> Sequence[Rule]:
        """Return the rules of sum and product."""
        return [_rule("Add", is_float, _keeps_sum_in_range), _rule("Mul", is_float, _keeps_product_in_range)]


@passes.verify.tolerance
@passes.register("fast-math")
class GroupConstantsFast(Transformation, RewriteRuleSetPass):
    """Reassociate float sums and products so that their constants meet and fold.

    Rewrites: ``(x ∘ c) ∘ d`` → ``x ∘ (c ∘ d)`` and ``(x ∘ c) ∘ y`` → ``(x ∘ y) ∘ c`` for ``Add`` and ``Mul``.
    Refuses:  what ``group-constants`` refuses for its shape or use; constants that are not finite, or whose sum or
              product is not; products that lose digits; summands that cancel.
    Exactness: rounding; what overflows on the way, and only there, may be finite now, or the other way round.
    """

    needs = ("shape-inference",)
    fast_math = ("nnan", "ninf", "nsz", "reassoc")
    fuzz_hints = hints(dtypes=["float32", "float64", "float16"])

    def rules(self) -> Sequence[Rule]:
        """Return the rules of sum and product."""
        return [_rule("Add", is_float, _keeps_sum_finite), _rule("Mul", is_float, _keeps_product_finite)]


def _rule(op_type: str, applies: Callable[[ir.Value], bool], guard: Guard) -> Rule:
    def pattern(op: Any, x: Any, c: Any, y: Any) -> Any:
        build = getattr(op, op_type)
        return build(build(x, c, _outputs=["inner"]), y, _outputs=["result"])

    def check(op: Match, x: ir.Value, c: ir.Value, y: ir.Value, inner: ir.Value, result: ir.Value) -> Any:
        if not applies(c):
            return no("the type is that of another pass", at=c)
        first, second = constant(c), constant(y)
        if first is None or is_constant(x):
            return no("not one operand of the inner operator is constant", at=c)
        if second is None and not keeps_shape(inner, result, y):
            return no("the other operand may widen the result", at=y)
        if second is not None and (grows(c) or grows(y)):
            return no("a large constant is used elsewhere, too", at=y)
        if second is not None and grows_by_broadcasting(combined(op_type, first, second), first, second):
            return no("the constants would grow by broadcasting", at=y)
        refusal = guard(first, second)
        return yes if refusal is None else refusal

    def rewrite(op: Any, x: ir.Value, c: ir.Value, y: ir.Value) -> Any:
        if not is_constant(y):
            return op.op(op_type, op.op(op_type, x, y), c)
        return op.op(op_type, x, combined(op_type, held(c), held(y)))

    return Rule(pattern, rewrite, check, name=op_type)


def _allow(a: np.ndarray, b: np.ndarray | None) -> Refusal | None:
    return None


def _keeps_sum_finite(a: np.ndarray, b: np.ndarray | None) -> Refusal | None:
    parts = [a] if b is None else [a, b, combined("Add", a, b)]
    if not all(np.isfinite(wide(part)).all() for part in parts):
        return no("a constant, or the sum of both, is not finite")
    return no("the constants cancel") if b is not None and cancels(a, b) else None


def _keeps_sum_in_range(a: np.ndarray, b: np.ndarray | None) -> Refusal | None:
    parts = [a] if b is None else [a, b, combined("Add", a, b)]
    if not all(is_unnoticed_at_the_limit(part) for part in parts):
        return no("a constant is so large that a sum may leave the range")
    return _keeps_sum_finite(a, b)


def _keeps_product_finite(a: np.ndarray, b: np.ndarray | None) -> Refusal | None:
    other = np.ones((), a.dtype) if b is None else b
    return None if is_product_safe(a, other) else no("a product overflows or loses digits")


def _keeps_product_in_range(a: np.ndarray, b: np.ndarray | None) -> Refusal | None:
    if b is None:
        return no("the product of the other operands may overflow")
    grows_first = (np.abs(wide(a)) > 1) & (np.abs(wide(b)) < 1)
    return no("the product may overflow on the way") if grows_first.any() else _keeps_product_finite(a, b)


def _twice(op: Any, x: Any, c: Any, d: Any) -> Any:
    return op.Div(op.Div(x, c), d)


def _fits(op: Match, x: ir.Value, c: ir.Value, d: ir.Value) -> Any:
    first, second = constant(c), constant(d)
    if first is None or second is None or is_constant(x):
        return no("the divisors are not constant", at=d)
    if not is_whole(c):
        return no("division of floats rounds each time", at=c)
    if (first <= 0).any() or (second <= 0).any():
        return no("a divisor is not positive", at=d)
    exact = first.astype(object) * second.astype(object)
    if any(number > np.iinfo(first.dtype).max for number in np.asarray(exact).reshape(-1)):
        return no("the product of the divisors does not fit", at=d)
    product = combined("Mul", first, second)
    return (
        no("the constants would grow by broadcasting", at=d) if grows_by_broadcasting(product, first, second) else yes
    )


def _divide_once(op: Any, x: ir.Value, c: ir.Value, d: ir.Value) -> Any:
    return op.Div(x, combined("Mul", held(c), held(d)))
