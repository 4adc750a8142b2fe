"""Remove what an operator does once more without effect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.traits import operators, traits_of
from onnx_passes.passes.eliminate.evidence import is_integral
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import no, yes
from onnx_passes.rewrite.rule import Rule


@passes.verify.equality
@passes.register("eliminate")
class EliminateIdempotence(Transformation, RewriteRuleSetPass):
    """Remove repetitions of operators that have no further effect.

    Rewrites: ``f(f(x))`` → ``f(x)`` for ``Abs``, ``Relu``, ``Sign``, ``Ceil``, ``Floor``, ``Round``;
              ``f(x, x)`` → ``x`` and ``f(f(x, y), y)`` → ``f(x, y)`` for ``And``, ``Or``, ``BitwiseAnd``,
              ``BitwiseOr``, ``Max``, ``Min``.
    Refuses:  ``Max(Max(x, y), y)`` of floats, where the sign of a zero depends on the order.
    Exactness: bit-exact.
    """

    needs = ("shape-inference",)

    def rules(self) -> Sequence[Rule]:
        """Make the rules of each idempotent operator."""
        unary = [name for name in operators("elementwise", arity=1, idempotent=True, exact=True) if name != "Identity"]
        binary = [n for n in operators("elementwise", idempotent=True, exact=True) if traits_of(n).arity != 1]
        return [
            *(_twice(name) for name in unary),
            *(_same_inputs(name) for name in binary),
            *(_same_again(name) for name in binary),
        ]


def _twice(op_type: str) -> Rule:
    def pattern(op: Any, x: Any) -> Any:
        return getattr(op, op_type)(getattr(op, op_type)(x, _outputs=["once"]))

    def rewrite(op: Any, once: ir.Value) -> Any:
        return once

    return Rule(pattern, rewrite, name=f"{op_type}Twice", forks="duplicate")


def _same_inputs(op_type: str) -> Rule:
    def pattern(op: Any, x: Any) -> Any:
        return getattr(op, op_type)(x, x)

    def rewrite(op: Any, x: ir.Value) -> Any:
        return x

    return Rule(pattern, rewrite, name=f"{op_type}OfSame")


def _same_again(op_type: str) -> Rule:
    def pattern(op: Any, x: Any, y: Any) -> Any:
        return getattr(op, op_type)(getattr(op, op_type)(x, y, _outputs=["once"]), y)

    def check(op: Match, y: ir.Value) -> Any:
        if op_type in ("Max", "Min") and not is_integral(y):
            return no("the sign of a zero depends on the order", at=y)
        return yes

    def rewrite(op: Any, once: ir.Value) -> Any:
        return once

    return Rule(pattern, rewrite, check, name=f"{op_type}Again", forks="duplicate")
