"""Let comparisons with a constant take in monotone functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript.rewriter.pattern import OrValue

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.arguments import argument
from onnx_passes.graph.arithmetic import negated, wide
from onnx_passes.graph.constants import constant, held, is_constant, owned_constant
from onnx_passes.graph.shapes import is_float, keeps_shape
from onnx_passes.graph.traits import TRAITS, traits_of
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import Refusal, no, yes
from onnx_passes.rewrite.rule import Rule

_COMPARISONS = tuple(name for name, traits in TRAITS.standard().items() if traits.converse)
_ROUNDS_DOWN = ("Less", "GreaterOrEqual")
_ROUNDS_UP = ("LessOrEqual", "Greater")
Moved = tuple[str, np.ndarray]


@passes.verify.equality
@passes.register("algebraic")
class AbsorbIntoComparison(Transformation, RewriteRuleSetPass):
    """Drop monotone functions from comparisons with a constant that they do not affect.

    Rewrites: ``Relu(x) > c`` → ``x > c`` for ``c >= 0``, and so for all comparisons and ``Clip(x, a, b)``,
              ``Max(x, a)``, ``Min(x, b)`` if ``c`` lies where they change nothing; ``Floor(x) >= c`` →
              ``x >= ceil(c)`` and ``<``; ``Ceil(x) <= c`` → ``x <= floor(c)`` and ``>``; ``Neg(x) < c`` → ``x > -c`` of
              floats, and so for all comparisons.
    Refuses:  constants beyond or, depending on the comparison, on the bounds (``Relu(x) < 0`` is false); ``Neg`` of
              integers, of which the lowest is its own negative; bounds that are not constant or may widen ``x``.
    Exactness: bit-exact for every float, NaN and infinities included.
    """

    needs = ("shape-inference",)

    def rules(self) -> Sequence[Rule]:
        """Make a rule for each comparison."""
        return [_rule(name) for name in _COMPARISONS]


def _rule(op_type: str) -> Rule:
    def pattern(op: Any, x: Any, c: Any) -> Any:
        limits = [getattr(op, name)(x, _allow_other_inputs=True) for name in ("Clip", "Max", "Min")]
        functions = [getattr(op, name)(x) for name in ("Relu", "Floor", "Ceil", "Neg")]
        return getattr(op, op_type)(OrValue([*functions, *limits], name="y"), c)

    def check(op: Match, x: ir.Value, y: ir.Value, c: ir.Value) -> Any:
        if owned_constant(c) is None or is_constant(x):
            return no("the function is not compared with a constant of its own", at=c)
        moved = _move(op_type, x, y, held(c))
        return moved if isinstance(moved, Refusal) else yes

    def rewrite(op: Any, x: ir.Value, y: ir.Value, c: ir.Value) -> Any:
        moved = _move(op_type, x, y, held(c))
        assert not isinstance(moved, Refusal)
        comparison, limit = moved
        return op.op(comparison, x, limit)

    return Rule(pattern, rewrite, check, name=op_type)


def _move(comparison: str, x: ir.Value, y: ir.Value, c: np.ndarray) -> Moved | Refusal:
    """Return the comparison of ``x`` that says the same as that of ``y``, a function of it, with a constant."""
    node = y.producer()
    assert node is not None
    match node.op_type:
        case "Neg" if is_float(x):
            return traits_of(comparison).converse, negated(c)
        case "Neg":
            return no("the lowest integer is its own negative", at=x)
        case "Floor" | "Ceil":
            return _move_past_rounding(node, comparison, c)
        case _:
            return _move_past_limits(node, comparison, x, c)


def _move_past_rounding(node: ir.Node, comparison: str, c: np.ndarray) -> Moved | Refusal:
    if comparison not in (_ROUNDS_DOWN if node.op_type == "Floor" else _ROUNDS_UP):
        return no("the rounding decides on the other side of the constant", at=node)
    rounded = np.ceil(wide(c)) if node.op_type == "Floor" else np.floor(wide(c))
    return comparison, np.asarray(rounded).astype(c.dtype)


def _move_past_limits(node: ir.Node, comparison: str, x: ir.Value, c: np.ndarray) -> Moved | Refusal:
    """Tell whether a comparison with a constant between two limits does not see them."""
    limits = _limits(node, x)
    if isinstance(limits, Refusal):
        return limits
    low, high = limits
    if comparison in ("Greater", "LessOrEqual"):
        between = (low <= c) & (c < high)
    elif comparison in ("Less", "GreaterOrEqual"):
        between = (low < c) & (c <= high)
    else:
        between = (low < c) & (c < high)
    return (comparison, c) if np.all(between) else no("the constant is not between the limits", at=node)


def _limits(node: ir.Node, x: ir.Value) -> tuple[Any, Any] | Refusal:
    """Read between which bounds a function leaves its operand as it is; there may be none on one side."""
    if node.op_type == "Relu":
        return 0, np.inf
    if node.op_type == "Clip":
        if node.attributes:
            return no("the limits are attributes", at=node)
        low, high = argument(node, 1), argument(node, 2)
    else:
        limits = [value for value in node.inputs if value is not x]
        if len(node.inputs) != 2 or len(limits) != 1:
            return no("there is not one limit", at=node)
        low, high = (limits[0], None) if node.op_type == "Max" else (None, limits[0])
    if any(value is not None and not is_constant(value) for value in (low, high)):
        return no("the limits are not constant", at=node)
    if not keeps_shape(x, node.outputs[0], low, high):
        return no("the limits may widen the operand", at=node)
    return (-np.inf if low is None else constant(low)), (np.inf if high is None else constant(high))
