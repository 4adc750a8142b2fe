"""Let sums, products and even functions take in negations of their operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.constants import is_constant
from onnx_passes.graph.traits import operators
from onnx_passes.passes.algebra.evidence import held, is_whole, negated, owned_constant
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import no, yes
from onnx_passes.rewrite.rule import Rule


@passes.verify.equality
@passes.register("algebraic")
class AbsorbNeg(Transformation, RewriteRuleSetPass):
    """Let sums, differences, products and even functions take in negations.

    Rewrites: ``x + Neg(y)`` → ``x - y``; ``x - Neg(y)`` → ``x + y``; ``Neg(x) * Neg(y)`` → ``x * y``;
              ``Neg(x) * c`` → ``x * (-c)``; ``Neg(x * c)`` → ``x * (-c)``; ``Neg(x - y)`` → ``y - x`` of integers;
              ``Abs(Neg(x))`` → ``Abs(x)``.
    Refuses:  ``Neg(x - y)`` of floats, where a zero would change its sign; constants that a caller may override, large
              ones that others use, too; ``Neg(x * c)`` if others use the product.
    Exactness: bit-exact.
    """

    def rules(self) -> Sequence[Rule]:
        """Return the rules of sums, products and even functions."""
        even = operators("elementwise", arity=1, parity=1, exact=True)
        return [
            Rule(_add_negative, _subtract, name="AddNeg", forks="duplicate"),
            Rule(_subtract_negative, _add, name="SubNeg", forks="duplicate"),
            Rule(_multiply_negatives, _multiply, name="MulNegNeg", forks="duplicate"),
            Rule(_scale_negative, _scale, _can_negate, name="MulNeg", forks="duplicate"),
            Rule(_negate_scaled, _scale, _can_negate, name="NegMul"),
            Rule(_negate_difference, _swap, _is_whole, name="NegSub"),
            *(_drop(name) for name in even),
        ]


def _add_negative(op: Any, x: Any, y: Any) -> Any:
    return op.Add(x, op.Neg(y))


def _subtract(op: Any, x: ir.Value, y: ir.Value) -> Any:
    return op.Sub(x, y)


def _subtract_negative(op: Any, x: Any, y: Any) -> Any:
    return op.Sub(x, op.Neg(y))


def _add(op: Any, x: ir.Value, y: ir.Value) -> Any:
    return op.Add(x, y)


def _multiply_negatives(op: Any, x: Any, y: Any) -> Any:
    return op.Mul(op.Neg(x), op.Neg(y))


def _multiply(op: Any, x: ir.Value, y: ir.Value) -> Any:
    return op.Mul(x, y)


def _scale_negative(op: Any, x: Any, c: Any) -> Any:
    return op.Mul(op.Neg(x), c)


def _negate_scaled(op: Any, x: Any, c: Any) -> Any:
    return op.Neg(op.Mul(x, c))


def _can_negate(op: Match, x: ir.Value, c: ir.Value) -> Any:
    if owned_constant(c) is None or is_constant(x):
        return no("the factor is not a constant of its own", at=c)
    return yes


def _scale(op: Any, x: ir.Value, c: ir.Value) -> Any:
    return op.Mul(x, negated(held(c)))


def _negate_difference(op: Any, x: Any, y: Any) -> Any:
    return op.Neg(op.Sub(x, y))


def _is_whole(op: Match, x: ir.Value) -> Any:
    return yes if is_whole(x) else no("a zero of floats would change its sign", at=x)


def _swap(op: Any, x: ir.Value, y: ir.Value) -> Any:
    return op.Sub(y, x)


def _drop(op_type: str) -> Rule:
    def pattern(op: Any, x: Any) -> Any:
        return getattr(op, op_type)(op.Neg(x))

    def rewrite(op: Any, x: ir.Value) -> Any:
        return op.op(op_type, x)

    return Rule(pattern, rewrite, name=f"{op_type}Neg", forks="duplicate")
