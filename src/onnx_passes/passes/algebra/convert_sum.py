"""Write sums and means of two operands with binary operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import no, yes
from onnx_passes.rewrite.rule import Rule


@passes.verify.equality
@passes.register("algebraic")
class ConvertSum(Transformation, RewriteRuleSetPass):
    """Write ``Sum`` and ``Mean`` of two operands with binary operators, which other rules know.

    Rewrites: ``Sum(x, y)`` → ``x + y``; ``Mean(x, y)`` → ``(x + y) * 0.5``.
    Refuses:  other numbers of operands; ``Mean`` of other types than float and double, which may be summed in a wider
              type.
    Exactness: bit-exact.
    """

    def rules(self) -> Sequence[Rule]:
        """Return the rules of sum and mean."""
        return [Rule(_sum, _add, name="Sum"), Rule(_mean, _halve, _is_summed_alike, name="Mean")]


def _sum(op: Any, x: Any, y: Any) -> Any:
    return op.Sum(x, y)


def _add(op: Any, x: ir.Value, y: ir.Value) -> Any:
    return op.Add(x, y)


def _mean(op: Any, x: Any, y: Any) -> Any:
    return op.Mean(x, y)


def _is_summed_alike(op: Match, x: ir.Value) -> Any:
    if x.dtype not in (ir.DataType.FLOAT, ir.DataType.DOUBLE):
        return no("the type may be summed in a wider one", at=x)
    return yes


def _halve(op: Any, x: ir.Value, y: ir.Value) -> Any:
    total = op.Add(x, y)
    return op.Mul(total, 0.5)
