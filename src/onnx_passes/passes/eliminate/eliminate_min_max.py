"""Make one of nested minima or maxima, and one of their constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import is_integral
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import no, yes
from onnx_passes.rewrite.rule import Rule

_COMBINE = {"Max": np.maximum, "Min": np.minimum}


@passes.verify.equality
@passes.register("eliminate")
class EliminateMinMax(Transformation, RewriteRuleSetPass):
    """Merge two consecutive Max, or Min, nodes with constant operands.

    Rewrites: ``Max(Max(x, c), d)`` → ``Max(x, max(c, d))``, also with more inputs than one, in any order.
    Refuses:  constants that a caller may override; NaN; a zero as the larger (smaller) constant of floats, whose sign
              depends on the order; constants that would grow by broadcasting; an inner node that others use.
    Exactness: bit-exact.
    """

    needs = ("shape-inference",)
    fuzz_hints: ClassVar[Mapping[str, Any]] = {"constants": {"c": [1, 2, [3, 4], -1.5], "d": [2, 1, [5, 1], [[7]]]}}

    def rules(self) -> Sequence[Rule]:
        """Return a rule for each of the two operators."""
        return [_nested(op_type) for op_type in _COMBINE]


def _nested(op_type: str) -> Rule:
    def pattern(op: Any, x: Any, c: Any, d: Any) -> Any:
        build = getattr(op, op_type)
        inner = build(x, c, _allow_other_inputs=True, _outputs=["inner"])
        return build(inner, d, _allow_other_inputs=True, _outputs=["outer"])

    def check(op: Match, c: ir.Value, d: ir.Value) -> Any:
        first, second = constant(c), constant(d)
        if first is None or second is None:
            return no("there is no constant in both", at=c)
        return yes if _combined(op_type, c, d) is not None else no("the constants cannot be combined", at=d)

    def rewrite(op: Any, inner: ir.Value, outer: ir.Value, c: ir.Value, d: ir.Value) -> Any:
        others = [value for node in (inner.producer(), outer.producer()) if node for value in node.inputs]
        kept = [value for value in others if value not in (inner, c, d)]
        if len(kept) + 3 != len(others):
            return no("an input comes twice", at=outer)
        combined = _combined(op_type, c, d)
        return getattr(op, op_type)(*kept, combined)

    return Rule(pattern, rewrite, check, name=op_type)


def _combined(op_type: str, c: ir.Value, d: ir.Value) -> np.ndarray | None:
    """Combine two constants, if their order can make no difference then."""
    first, second = constant(c), constant(d)
    if first is None or second is None or first.dtype == object:
        return None
    try:
        combined = _COMBINE[op_type](first, second)
    except ValueError:
        return None
    if combined.size > max(first.size, second.size):
        return None
    ambiguous = not is_integral(c) and bool(((combined == 0) | (combined != combined)).any())
    return None if ambiguous else np.asarray(combined, first.dtype)
