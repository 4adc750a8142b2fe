"""Put the constant of a comparison on the right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.constants import is_constant
from onnx_passes.graph.traits import TRAITS
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import no, yes
from onnx_passes.rewrite.rule import Rule


@passes.verify.equality
@passes.register("algebraic")
class OrderComparison(Transformation, RewriteRuleSetPass):
    """Put the constant of a comparison on the right, where other rules look for it.

    Rewrites: ``c < x`` → ``x > c``, and so for ``LessOrEqual``, ``Greater``, ``GreaterOrEqual`` and ``Equal``.
    Refuses:  comparisons without a constant, or of constants; constants that a caller may override.
    Exactness: bit-exact.
    """

    def rules(self) -> Sequence[Rule]:
        """Make a rule for each operator that has a converse."""
        return [_rule(name, traits.converse) for name, traits in TRAITS.standard().items() if traits.converse]


def _rule(op_type: str, converse: str) -> Rule:
    def pattern(op: Any, c: Any, x: Any) -> Any:
        return getattr(op, op_type)(c, x)

    def check(op: Match, c: ir.Value, x: ir.Value) -> Any:
        return yes if is_constant(c) and not is_constant(x) else no("the left operand is not the only constant", at=c)

    def rewrite(op: Any, c: ir.Value, x: ir.Value) -> Any:
        return op.op(converse, x, c)

    return Rule(pattern, rewrite, check, name=op_type, commute=False)
