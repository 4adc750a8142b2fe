"""Laws that absorb monotone functions into comparisons with a constant."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.arguments import argument
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant, held, is_constant
from onnx_passes.graph.shapes import is_float, keeps_shape
from onnx_passes.graph.traits import TRAITS, traits_of
from onnx_passes.ops.number_systems.constants import negated, wide
from onnx_passes.rewrite.laws import LawPass, Vocabulary, When
from onnx_passes.rewrite.refusal import Answer, Refusal, Rewritten, no, yes

_ROUNDS_DOWN = ("Less", "GreaterOrEqual")
_ROUNDS_UP = ("LessOrEqual", "Greater")
Moved = tuple[str, np.ndarray]


def _can_move(comparison: ir.Node, y: ir.Node, x: ir.Value, c: ir.Value) -> Answer:
    moved = _move(comparison.op_type, y, x, held(c))
    return moved if isinstance(moved, Refusal) else yes


def _moved(op: Builder, comparison: ir.Node, y: ir.Node, x: ir.Value, c: ir.Value) -> Rewritten:
    moved = _move(comparison.op_type, y, x, held(c))
    return moved if isinstance(moved, Refusal) else op.op(moved[0], x, moved[1])


def _move(comparison: str, node: ir.Node, x: ir.Value, c: np.ndarray) -> Moved | Refusal:
    """Return the comparison of ``x`` equivalent to comparing ``node(x)`` with ``c``."""
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
    """Return the comparison unchanged if ``c`` lies between the bounds; refuse otherwise."""
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
    """Return the bounds between which a function is the identity; infinite where it has no bound."""
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


_law = Vocabulary(_can_move, _moved, Function=("Relu", "Floor", "Ceil", "Neg"), Limit=("Clip", "Max", "Min")).law


@passes.verify.equality
@passes.register("algebraic")
class AbsorbIntoComparison(LawPass):
    """Drop monotone functions from comparisons with a constant that they do not affect.

    Rewrites: ``Relu(x) > c`` → ``x > c`` for ``c >= 0``, likewise for all comparisons and ``Clip(x, a, b)``,
              ``Max(x, a)``, ``Min(x, b)`` if ``c`` lies within the bounds; ``Floor(x) >= c`` →
              ``x >= ceil(c)`` and ``<``; ``Ceil(x) <= c`` → ``x <= floor(c)`` and ``>``; ``Neg(x) < c`` → ``x > -c`` of
              floats, likewise for all comparisons.
    Refuses:  constants beyond or, depending on the comparison, on the bounds (``Relu(x) < 0`` is false); ``Neg`` of
              integers, of which the lowest is its own negative; bounds that are not constant or may widen ``x``.
    Exactness: bit-exact for every float, NaN and infinities included.
    """

    laws = tuple(
        _law(
            f"{f}(y := (Function(x) | Limit(x, ...)), c) → moved(result, y, x, c)",
            When(
                "is_own_constant(c) and not is_constant(x)",
                "the function is not compared with a constant of its own",
            ),
            When("can_move(result, y, x, c)"),
        )
        for f, traits in TRAITS.standard().items()
        if traits.converse
    )
