"""Write the product with minus one as a negation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.constants import is_constant
from onnx_passes.passes.algebra.evidence import is_float, is_whole
from onnx_passes.passes.eliminate.evidence import holds_only, keeps_shape
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import no, yes
from onnx_passes.rewrite.rule import Rule


@passes.verify.equality
@passes.register("algebraic")
class ConvertNeg(Transformation, RewriteRuleSetPass):
    """Negate instead of multiplying with, or dividing by, minus one.

    ``Neg`` is the normal form: it needs no constant, never widens its operand, and ``absorb-neg`` and the elimination
    of double negations take it further; a product with another constant takes it in.

    Rewrites: ``x * -1`` → ``Neg(x)``; ``x / -1`` → ``Neg(x)`` of floats.
    Refuses:  unsigned integers, which cannot be negated; ``x / -1`` of integers, which may fail; constants that a
              caller may override, or that may widen ``x``.
    Exactness: bit-exact.
    """

    needs = ("shape-inference",)
    fuzz_hints: ClassVar[Mapping[str, Any]] = {"constants": {"c": [-1, [-1], [[-1]], 1]}}

    def rules(self) -> Sequence[Rule]:
        """Return the rules of product and quotient."""
        return [_rule("Mul"), _rule("Div")]


def _rule(op_type: str) -> Rule:
    def pattern(op: Any, x: Any, c: Any) -> Any:
        return getattr(op, op_type)(x, c, _outputs=["result"])

    def check(op: Match, x: ir.Value, c: ir.Value, result: ir.Value) -> Any:
        signed = is_whole(c) and c.dtype is not None and c.dtype.is_signed()
        if not is_float(c) and not (signed and op_type == "Mul"):
            return no("the type cannot be negated, or not without failing", at=c)
        if not holds_only(c, -1.0) or is_constant(x):
            return no("the constant is not minus one", at=c)
        return yes if keeps_shape(x, result, c) else no("the constant may widen the other operand", at=c)

    def rewrite(op: Any, x: ir.Value) -> Any:
        return op.Neg(x)

    return Rule(pattern, rewrite, check, name=op_type)
