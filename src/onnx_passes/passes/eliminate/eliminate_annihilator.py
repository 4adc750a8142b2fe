"""Remove operands that do not matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.constants import is_constant
from onnx_passes.graph.traits import TRAITS, traits_of
from onnx_passes.passes.eliminate.evidence import holds_only, is_integral, keeps_shape
from onnx_passes.passes.eliminate.forms import filled_like
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import no, yes
from onnx_passes.rewrite.rule import Rule


@passes.verify.equality
@passes.register("eliminate")
class EliminateAnnihilator(Transformation, RewriteRuleSetPass):
    """Remove an operator whose result a constant operand decides alone.

    Rewrites: ``x * 0`` of integers, ``And(x, false)``, ``Or(x, true)``, ``BitwiseAnd(x, 0)``, ``BitwiseOr(x, -1)`` →
              the constant, expanded to the shape of ``x`` where that may be wider.
    Refuses:  ``x * 0`` of floats (NaN, infinities, signs of zeros); constants that a caller may override.
    Exactness: bit-exact.
    """

    needs = ("shape-inference",)
    fuzz_hints: ClassVar[Mapping[str, Any]] = {"constants": {"c": [0, -1, [0], [[255, 255]], [[0], [0]], True]}}

    def rules(self) -> Sequence[Rule]:
        """Make a rule for each operator that has an annihilator."""
        return [_rule(name) for name, traits in TRAITS.standard().items() if traits.annihilator is not None]


def _rule(op_type: str) -> Rule:
    number = traits_of(op_type).annihilator or 0

    def pattern(op: Any, x: Any, c: Any) -> Any:
        return getattr(op, op_type)(x, c, _outputs=["result"])

    def check(op: Match, x: ir.Value, c: ir.Value) -> Any:
        if not is_constant(c):
            return no("neither operand is constant", at=c)
        if not is_integral(c):
            return no("NaN, infinities and signs would be lost", at=x)
        return yes if holds_only(c, number) else no("the constant does not decide the result", at=c)

    def rewrite(op: Any, x: ir.Value, c: ir.Value, result: ir.Value) -> Any:
        return c if keeps_shape(c, result, x) else filled_like(op, x, c)

    return Rule(pattern, rewrite, check, name=op_type)
