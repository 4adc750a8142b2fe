"""Cancel what can be undone on both sides of an equality of integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir
from onnxscript.rewriter.pattern import OrValue

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.constants import is_constant
from onnx_passes.graph.traits import TRAITS, traits_of
from onnx_passes.passes.algebra.evidence import (
    combined,
    grows_by_broadcasting,
    held,
    is_discrete,
    owned_constant,
    vanishes_into,
)
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import no, yes
from onnx_passes.rewrite.rule import Rule

_UNDONE = tuple(
    n for n, t in TRAITS.standard().items() if t.arity == 2 and t.undoes in ("Add", "Sub", "Xor", "BitwiseXor")
)


@passes.verify.equality
@passes.register("algebraic")
class CancelInEquality(Transformation, RewriteRuleSetPass):
    """Take a constant of an equation of integers to the other side, and drop what is on both sides.

    Rewrites: ``x + c == d`` → ``x == d - c``, also for ``Sub``, ``Xor``, ``BitwiseXor``; ``x + z == y + z`` →
              ``x == y``, and so for those.
    Refuses:  floats, which round; orderings, which wrapping around breaks (``x + 1 < y + 1`` of the highest ``x``);
              constants that a caller may override or that would grow; ``z`` that may widen what is left.
    Exactness: bit-exact; integers wrap around.
    """

    needs = ("shape-inference",)
    fuzz_hints: ClassVar[Mapping[str, Any]] = {"dtypes": ["int32", "int64", "int8", "uint8", "bool"]}

    def rules(self) -> Sequence[Rule]:
        """Return the rules of constants and of what is on both sides."""
        return [
            Rule(_constants, _take_over, _can_take_over, name="Constant"),
            *(_both_sides(name) for name in _UNDONE),
        ]


def _constants(op: Any, x: Any, c: Any, d: Any) -> Any:
    return op.Equal(OrValue([getattr(op, name)(x, c) for name in _UNDONE], name="y"), d)


def _can_take_over(op: Match, x: ir.Value, c: ir.Value, d: ir.Value, y: ir.Value) -> Any:
    if not is_discrete(x):
        return no("floats round", at=x)
    if not is_constant(c) or owned_constant(d) is None or is_constant(x):
        return no("not one operand and the other side are constant", at=d)
    if grows_by_broadcasting(_other_side(c, d, y), held(c), held(d)):
        return no("the constants would grow by broadcasting", at=d)
    return yes


def _other_side(c: ir.Value, d: ir.Value, y: ir.Value) -> np.ndarray:
    node = y.producer()
    assert node is not None
    return combined(traits_of(node).undoes, held(d), held(c))


def _take_over(op: Any, x: ir.Value, c: ir.Value, d: ir.Value, y: ir.Value) -> Any:
    return op.Equal(x, _other_side(c, d, y))


def _both_sides(op_type: str) -> Rule:
    def pattern(op: Any, x: Any, y: Any, z: Any) -> Any:
        build = getattr(op, op_type)
        return op.Equal(build(x, z), build(y, z))

    def check(op: Match, x: ir.Value, y: ir.Value, z: ir.Value) -> Any:
        if not is_discrete(x):
            return no("floats round", at=x)
        return yes if vanishes_into(z, x, y) else no("what is on both sides may widen what is left", at=z)

    def rewrite(op: Any, x: ir.Value, y: ir.Value) -> Any:
        return op.Equal(x, y)

    return Rule(pattern, rewrite, check, name=op_type)
