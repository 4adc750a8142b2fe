"""Remove operators whose result is known because their operands are the same, or opposite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.traits import Number, traits_of
from onnx_passes.passes.eliminate.evidence import is_integral
from onnx_passes.passes.eliminate.forms import filled_like
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import no, yes
from onnx_passes.rewrite.rule import Rule

_SAME: dict[str, Number] = {
    **{name: traits_of(traits_of(name).undoes).identity or 0 for name in ("Sub", "Xor", "BitwiseXor")},
    "Less": False,
    "Greater": False,
    "Equal": True,
    "LessOrEqual": True,
    "GreaterOrEqual": True,
}
"""What an operator makes of twice the same."""
_OPPOSITE: dict[tuple[str, str], Number] = {
    **{(name, "Not"): traits_of(name).annihilator or 0 for name in ("And", "Or")},
    **{(name, "BitwiseNot"): traits_of(name).annihilator or 0 for name in ("BitwiseAnd", "BitwiseOr")},
    ("Xor", "Not"): True,
    ("BitwiseXor", "BitwiseNot"): -1,
    ("Add", "Neg"): 0,
}
"""What an operator makes of something and its opposite."""
_ALSO_OF_FLOATS = ("Less", "Greater")
_COMPARISONS = ("Less", "Greater", "Equal", "LessOrEqual", "GreaterOrEqual")


@passes.verify.equality
@passes.register("eliminate")
class EliminateComplement(Transformation, RewriteRuleSetPass):
    """Remove operators whose operands are the same, or opposite, so that the result is known.

    Rewrites: ``x - x``, ``Xor(x, x)``, ``BitwiseXor(x, x)``, ``x + -x``, ``And(x, Not(x))``,
              ``BitwiseAnd(x, BitwiseNot(x))`` → zeros of the shape of ``x``; ``Or(x, Not(x))``, ``x == x``, ``x <= x``
              → ``true``; ``BitwiseOr(x, BitwiseNot(x))`` → ``-1``; ``x < x`` → ``false``.
    Refuses:  floats, but for ``x < x`` and ``x > x``: infinities have no difference and NaN equals nothing.
    Exactness: bit-exact.
    """

    needs = ("shape-inference",)

    def rules(self) -> Sequence[Rule]:
        """Make a rule for each entry of the tables."""
        return [
            *(_same(op_type, number) for op_type, number in _SAME.items()),
            *(_opposite(*pair, number) for pair, number in _OPPOSITE.items()),
        ]


def _same(op_type: str, number: Number) -> Rule:
    def pattern(op: Any, x: Any) -> Any:
        return getattr(op, op_type)(x, x)

    return _rule(pattern, op_type, number, f"{op_type}OfSame")


def _opposite(op_type: str, inverse: str, number: Number) -> Rule:
    def pattern(op: Any, x: Any) -> Any:
        return getattr(op, op_type)(x, getattr(op, inverse)(x))

    return _rule(pattern, op_type, number, f"{op_type}Of{inverse}")


def _rule(pattern: Any, op_type: str, number: Number, name: str) -> Rule:
    def check(op: Match, x: ir.Value) -> Any:
        exact = is_integral(x) or op_type in _ALSO_OF_FLOATS
        return yes if exact else no("NaN and infinities would be lost", at=x)

    def rewrite(op: Any, x: ir.Value) -> Any:
        dtype = ir.DataType.BOOL if op_type in _COMPARISONS else x.dtype
        assert dtype is not None
        return filled_like(op, x, np.array(number).astype(dtype.numpy()))

    return Rule(pattern, rewrite, check, name=name, forks="duplicate")
