"""Make one of two selections with the same condition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.passes.algebra.evidence import vanishes_into
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import no, yes
from onnx_passes.rewrite.rule import Rule


@passes.verify.equality
@passes.register("algebraic")
class MergeWhere(Transformation, RewriteRuleSetPass):
    """Drop what a selection never takes from another one with the same condition.

    Rewrites: ``Where(c, Where(c, x, z), y)`` → ``Where(c, x, y)``; ``Where(c, x, Where(c, z, y))`` →
              ``Where(c, x, y)``.
    Refuses:  ``z`` that may widen the result.
    Exactness: bit-exact.
    """

    needs = ("shape-inference",)

    def rules(self) -> Sequence[Rule]:
        """Return the rules for both branches."""
        return [
            Rule(_in_first, _select, _keeps_shape, name="WhereInFirst", forks="duplicate"),
            Rule(_in_second, _select, _keeps_shape, name="WhereInSecond", forks="duplicate"),
        ]


def _in_first(op: Any, c: Any, x: Any, y: Any, z: Any) -> Any:
    return op.Where(c, op.Where(c, x, z), y)


def _in_second(op: Any, c: Any, x: Any, y: Any, z: Any) -> Any:
    return op.Where(c, x, op.Where(c, z, y))


def _keeps_shape(op: Match, c: ir.Value, x: ir.Value, y: ir.Value, z: ir.Value) -> Any:
    return yes if vanishes_into(z, c, x, y) else no("what is never taken may widen the result", at=z)


def _select(op: Any, c: ir.Value, x: ir.Value, y: ir.Value) -> Any:
    return op.Where(c, x, y)
