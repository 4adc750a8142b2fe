"""Remove what an operator and its dual make of nothing but an operand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.passes.eliminate.evidence import is_integral, keeps_shape
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import no, yes
from onnx_passes.rewrite.rule import Rule

_DUAL = {"And": "Or", "Or": "And", "BitwiseAnd": "BitwiseOr", "BitwiseOr": "BitwiseAnd", "Max": "Min", "Min": "Max"}


@passes.verify.equality
@passes.register("eliminate")
class EliminateAbsorption(Transformation, RewriteRuleSetPass):
    """Remove two dual operators that give back one of their operands.

    Rewrites: ``And(x, Or(x, y))`` → ``x`` in any order, and so with ``Or`` and ``And``, ``BitwiseAnd`` and
              ``BitwiseOr``, ``Max`` and ``Min``.
    Refuses:  ``y`` that may widen ``x``; ``Max`` and ``Min`` of floats, where a NaN in ``y`` prevails.
    Exactness: bit-exact.
    """

    needs = ("shape-inference",)

    def rules(self) -> Sequence[Rule]:
        """Return a rule for each pair."""
        return [_rule(outer, inner) for outer, inner in _DUAL.items()]


def _rule(outer: str, inner: str) -> Rule:
    def pattern(op: Any, x: Any, y: Any) -> Any:
        return getattr(op, outer)(x, getattr(op, inner)(x, y), _outputs=["result"])

    def check(op: Match, x: ir.Value, y: ir.Value, result: ir.Value) -> Any:
        if not is_integral(x):
            return no("a NaN would be lost", at=x)
        return yes if keeps_shape(x, result, y) else no("the result may be wider", at=y)

    def rewrite(op: Any, x: ir.Value) -> Any:
        return x

    return Rule(pattern, rewrite, check, name=f"{outer}Of{inner}", forks="duplicate")
