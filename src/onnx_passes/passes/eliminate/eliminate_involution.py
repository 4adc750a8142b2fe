"""Remove operators that undo themselves, applied twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.traits import operators
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.rule import Rule


@passes.verify.equality
@passes.register("eliminate")
class EliminateInvolution(Transformation, RewriteRuleSetPass):
    """Remove an operator that is applied twice and takes itself back.

    Rewrites: ``Neg(Neg(x))`` → ``x``, and so for ``Not`` and ``BitwiseNot``.
    Refuses:  ``Reciprocal``, which rounds.
    Exactness: bit-exact.
    """

    def rules(self) -> Sequence[Rule]:
        """Make a rule for each operator that is its own inverse, bit by bit."""
        return [_twice(name) for name in operators("elementwise", arity=1, involution=True, exact=True)]


def _twice(op_type: str) -> Rule:
    def pattern(op: Any, x: Any) -> Any:
        return getattr(op, op_type)(getattr(op, op_type)(x))

    def rewrite(op: Any, x: Any) -> Any:
        return x

    return Rule(pattern, rewrite, name=f"{op_type}Twice", forks="duplicate")
