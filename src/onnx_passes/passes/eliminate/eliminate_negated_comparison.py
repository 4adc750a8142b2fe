"""Remove negations of comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.traits import TRAITS
from onnx_passes.passes.eliminate.evidence import is_integral
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import no, yes
from onnx_passes.rewrite.rule import Rule


@passes.verify.equality
@passes.register("eliminate")
class EliminateNegatedComparison(Transformation, RewriteRuleSetPass):
    """Compare the other way instead of negating a comparison of integers.

    Rewrites: ``Not(Less(x, y))`` → ``GreaterOrEqual(x, y)``, and so for ``LessOrEqual``, ``Greater``,
              ``GreaterOrEqual``.
    Refuses:  floats, as every comparison with NaN is false; a comparison that others use.
    Exactness: bit-exact.
    """

    needs = ("shape-inference",)

    def rules(self) -> Sequence[Rule]:
        """Make a rule for each comparison that has a complement."""
        return [_rule(name, traits.complement) for name, traits in TRAITS.standard().items() if traits.complement]


def _rule(comparison: str, complement: str) -> Rule:
    def pattern(op: Any, x: Any, y: Any) -> Any:
        return op.Not(getattr(op, comparison)(x, y))

    def check(op: Match, x: ir.Value) -> Any:
        return yes if is_integral(x) else no("comparisons with NaN are false both ways", at=x)

    def rewrite(op: Any, x: ir.Value, y: ir.Value) -> Any:
        return getattr(op, complement)(x, y)

    return Rule(pattern, rewrite, check, name=f"NotOf{comparison}")
