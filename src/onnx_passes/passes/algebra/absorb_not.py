"""Make fewer negations of truth values and bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir
from onnxscript.rewriter.pattern import OrValue

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.constants import is_constant
from onnx_passes.passes.algebra.evidence import held, owned_constant
from onnx_passes.passes.eliminate.evidence import holds_only, keeps_shape
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import no, yes
from onnx_passes.rewrite.rule import Rule


@dataclass(frozen=True)
class _Logic:
    """The operators of a Boolean algebra, and its largest element."""

    both: str
    either: str
    differ: str
    negate: str
    top: int
    complement: Callable[[np.ndarray], np.ndarray]


_LOGICS = (
    _Logic("And", "Or", "Xor", "Not", 1, np.logical_not),
    _Logic("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", -1, np.invert),
)


@passes.verify.equality
@passes.register("algebraic")
class AbsorbNot(Transformation, RewriteRuleSetPass):
    """Take in negations of truth values and bits, and make one of two, by De Morgan's laws.

    A negation goes inward where it is taken in there, and outward where two become one: nodes never become more.

    Rewrites: ``And(Not(x), Not(y))`` → ``Not(Or(x, y))``; ``Not(And(Not(x), y))`` → ``Or(x, Not(y))``; both also with
              ``Or``; ``Xor(Not(x), y)`` → ``Not(Xor(x, y))``, or ``Xor(x, not c)`` with a constant; ``Xor(x, true)`` →
              ``Not(x)``; all also of ``BitwiseAnd``, ``BitwiseOr``, ``BitwiseXor``, ``BitwiseNot``.
    Refuses:  values inside that others use, too; constants that a caller may override, or whose shape may widen ``x``.
    Exactness: bit-exact.
    """

    needs = ("shape-inference",)
    fuzz_hints: ClassVar[Mapping[str, Any]] = {"constants": {"ones": [1, [1], -1, [-1], 255]}}

    def rules(self) -> Sequence[Rule]:
        """Return the rules of both algebras."""
        found: list[Rule] = []
        for logic in _LOGICS:
            found += [_outward(logic, logic.both, logic.either), _outward(logic, logic.either, logic.both)]
            found += [_inward(logic), _past_xor(logic), _from_xor(logic)]
        return found


def _outward(logic: _Logic, outer: str, dual: str) -> Rule:
    def pattern(op: Any, x: Any, y: Any) -> Any:
        return getattr(op, outer)(getattr(op, logic.negate)(x), getattr(op, logic.negate)(y))

    def rewrite(op: Any, x: ir.Value, y: ir.Value) -> Any:
        return op.op(logic.negate, op.op(dual, x, y))

    return Rule(pattern, rewrite, name=f"{outer}OfNots")


def _inward(logic: _Logic) -> Rule:
    def pattern(op: Any, x: Any, y: Any) -> Any:
        negated = getattr(op, logic.negate)(x)
        inner = [getattr(op, name)(negated, y) for name in (logic.both, logic.either)]
        return getattr(op, logic.negate)(OrValue(inner, name="inner"))

    def rewrite(op: Any, x: ir.Value, y: ir.Value, inner: ir.Value) -> Any:
        node = inner.producer()
        dual = logic.either if node is not None and node.op_type == logic.both else logic.both
        return op.op(dual, x, op.op(logic.negate, y))

    return Rule(pattern, rewrite, name=f"{logic.negate}OfNot")


def _past_xor(logic: _Logic) -> Rule:
    def pattern(op: Any, x: Any, y: Any) -> Any:
        return getattr(op, logic.differ)(getattr(op, logic.negate)(x), y)

    def rewrite(op: Any, x: ir.Value, y: ir.Value) -> Any:
        if owned_constant(y) is not None:
            return op.op(logic.differ, x, logic.complement(held(y)))
        return op.op(logic.negate, op.op(logic.differ, x, y))

    return Rule(pattern, rewrite, name=f"{logic.differ}OfNot")


def _from_xor(logic: _Logic) -> Rule:
    def pattern(op: Any, x: Any, ones: Any) -> Any:
        return getattr(op, logic.differ)(x, ones, _outputs=["result"])

    def check(op: Match, x: ir.Value, ones: ir.Value, result: ir.Value) -> Any:
        if not is_constant(ones) or is_constant(x):
            return no("not one operand is constant", at=ones)
        if not holds_only(ones, _top(logic, ones)):
            return no("the constant does not flip everything", at=ones)
        return yes if keeps_shape(x, result, ones) else no("the constant may widen the other operand", at=ones)

    def rewrite(op: Any, x: ir.Value) -> Any:
        return op.op(logic.negate, x)

    return Rule(pattern, rewrite, check, name=f"{logic.differ}WithOnes")


def _top(logic: _Logic, value: ir.Value) -> int:
    """Return the number whose bits are all set."""
    unsigned = value.dtype is not None and value.dtype.is_integer() and not value.dtype.is_signed()
    return (1 << value.dtype.bitwidth) - 1 if unsigned and value.dtype is not None else logic.top
