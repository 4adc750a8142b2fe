"""Write the subtraction of a constant as an addition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.constants import is_constant
from onnx_passes.passes.algebra.evidence import held, is_float, is_whole, negated, owned_constant
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import no, yes
from onnx_passes.rewrite.rule import Rule


@passes.verify.equality
@passes.register("algebraic")
class ConvertSub(Transformation, RewriteRuleSetPass):
    """Add the negative of a constant instead of subtracting it, so that sums have one form.

    Rewrites: ``x - c`` → ``x + (-c)``.
    Refuses:  constants that a caller may override; large ones that others use, too.
    Exactness: bit-exact; IEEE defines it so, and integers wrap around, also unsigned ones.
    """

    def rules(self) -> Sequence[Rule]:
        """Return the one rule."""
        return [Rule(_pattern, _rewrite, _check, name="Sub")]


def _pattern(op: Any, x: Any, c: Any) -> Any:
    return op.Sub(x, c)


def _check(op: Match, x: ir.Value, c: ir.Value) -> Any:
    if owned_constant(c) is None or is_constant(x):
        return no("what is subtracted is not a constant of its own", at=c)
    return yes if is_float(c) or is_whole(c) else no("the type cannot be negated", at=c)


def _rewrite(op: Any, x: ir.Value, c: ir.Value) -> Any:
    return op.Add(x, negated(held(c)))
