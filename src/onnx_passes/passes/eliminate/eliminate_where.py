"""Remove selections that are decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.passes.eliminate.evidence import holds_only, is_integral, keeps_shape
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import no, yes
from onnx_passes.rewrite.rule import Rule


@passes.verify.equality
@passes.register("eliminate")
class EliminateWhere(Transformation, RewriteRuleSetPass):
    """Remove Where that always selects the same, and negations of its condition.

    Rewrites: ``Where(false, x, y)`` → ``y``; of integers also ``Where(true, x, y)`` → ``x``, ``Where(c, x, x)`` →
              ``x`` and ``Where(Not(c), x, y)`` → ``Where(c, y, x)``.
    Refuses:  conditions that are computed, mixed or may be overridden; what is selected, if the condition or the
              other choice may widen it; the first choice of floats, of which ONNX Runtime makes ``0.0`` of ``-0.0``
              (``eliminate-where-of-floats`` does not mind).
    Exactness: bit-exact.
    """

    needs = ("shape-inference",)
    fuzz_hints: ClassVar[Mapping[str, Any]] = {"constants": {"c": [True, False, [True], [[False]], [True, True]]}}

    def rules(self) -> Sequence[Rule]:
        """Return the rules: decided, without a choice, negated."""
        return rules_of_where(signs_matter=True)


def rules_of_where(*, signs_matter: bool) -> Sequence[Rule]:
    """Return the rules; where signs of zeros matter, they leave floats alone that might lose or get one."""

    def allow(x: ir.Value) -> Any:
        exact = not signs_matter or is_integral(x) or x.dtype == ir.DataType.STRING
        return yes if exact else no("the sign of a zero would come back", at=x)

    def is_decided(op: Match, c: ir.Value, x: ir.Value, y: ir.Value, result: ir.Value) -> Any:
        first = holds_only(c, True)
        chosen = x if first else y
        if not first and not holds_only(c, False):
            return no("the condition is not constant, or mixed", at=c)
        if not keeps_shape(chosen, result, c, x, y):
            return no("what is chosen may be widened", at=chosen)
        return allow(x) if first else yes

    def keeps_same(op: Match, c: ir.Value, x: ir.Value, result: ir.Value) -> Any:
        return allow(x) if keeps_shape(x, result, c) else no("the condition may widen what is chosen", at=c)

    def may_swap(op: Match, x: ir.Value) -> Any:
        return allow(x)

    return [
        Rule(_select, _take_chosen, is_decided, name="WhereConstant"),
        Rule(_select_same, _take_same, keeps_same, name="WhereSame"),
        Rule(_select_negated, _swap, may_swap, name="WhereNot", forks="duplicate"),
    ]


def _select(op: Any, c: Any, x: Any, y: Any) -> Any:
    return op.Where(c, x, y, _outputs=["result"])


def _take_chosen(op: Any, c: ir.Value, x: ir.Value, y: ir.Value) -> Any:
    return x if holds_only(c, True) else y


def _select_same(op: Any, c: Any, x: Any) -> Any:
    return op.Where(c, x, x, _outputs=["result"])


def _take_same(op: Any, x: ir.Value) -> Any:
    return x


def _select_negated(op: Any, c: Any, x: Any, y: Any) -> Any:
    return op.Where(op.Not(c), x, y)


def _swap(op: Any, c: ir.Value, x: ir.Value, y: ir.Value) -> Any:
    return op.Where(c, y, x)
