"""Remove operands that leave the other one as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.constants import is_constant
from onnx_passes.graph.traits import TRAITS, traits_of
from onnx_passes.passes.eliminate.evidence import holds_only, is_integral, keeps_shape
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import no, yes
from onnx_passes.rewrite.rule import Rule

_EXACT_IN_DOUBLE = 32


@passes.verify.equality
@passes.register("eliminate")
class EliminateNeutralElement(Transformation, RewriteRuleSetPass):
    """Remove a constant operand that leaves the other one as it is.

    Rewrites: ``x + 0``, ``x - 0``, ``x * 1``, ``x / 1``, ``Pow(x, 1)``, ``And(x, true)``, ``Or(x, false)``,
              ``Xor(x, false)``, ``BitwiseAnd(x, -1)``, ``BitwiseOr(x, 0)``, ``BitwiseXor(x, 0)`` → ``x``.
    Refuses:  constants that a caller may override; constants whose shape may widen ``x``; with floats ``x + 0.0`` and
              ``x - -0.0``, which turn ``-0.0`` into ``0.0`` (``x + -0.0`` and ``x - 0.0`` go); 64-bit ``Pow``.
    Exactness: bit-exact.
    """

    needs = ("shape-inference",)
    fuzz_hints: ClassVar[Mapping[str, Any]] = {"constants": {"c": [0.0, -0.0, 1, 1.0, [1.0], -1, [[0.0]], 255]}}

    def rules(self) -> Sequence[Rule]:
        """Make a rule for each operator that has a neutral element."""
        return [_rule(name) for name, traits in TRAITS.standard().items() if traits.identity is not None]


def _neutral(op_type: str, value: ir.Value) -> float:
    """Return the number that is neutral even to the sign of a zero."""
    number = float(traits_of(op_type).identity or 0)
    return -0.0 if number == 0 and traits_of(op_type).commutative and not is_integral(value) else number


def _rule(op_type: str) -> Rule:
    def pattern(op: Any, x: Any, c: Any) -> Any:
        return getattr(op, op_type)(x, c, _outputs=["result"])

    def check(op: Match, x: ir.Value, c: ir.Value, result: ir.Value) -> Any:
        if not is_constant(c):
            return no("neither operand is constant", at=c)
        if not holds_only(c, _neutral(op_type, c)):
            return no("the constant is not the neutral element", at=c)
        if not keeps_shape(x, result, c):
            return no("the constant may widen the other operand", at=c)
        if op_type == "Pow" and is_integral(x) and (x.dtype is None or x.dtype.bitwidth > _EXACT_IN_DOUBLE):
            return no("large integers are rounded on the way", at=x)
        return yes

    def rewrite(op: Any, x: ir.Value) -> Any:
        return x

    return Rule(pattern, rewrite, check, name=op_type)
