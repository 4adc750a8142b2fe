"""Operators that are younger than opset 9, in the words of every version from there on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from onnx_passes.ops.definition import Call

if TYPE_CHECKING:
    from onnx_passes.graph.builder import Builder

_ROUND, _GREATER_OR_EQUAL = 11, 12


def greater_or_equal(op: Builder, x: ir.Value, y: Any) -> ir.Value:
    """Compare floats; nothing is greater than or equal to NaN."""
    if op.opset >= _GREATER_OR_EQUAL:
        return op.GreaterOrEqual(x, y)
    # Equal is not for floats yet.
    return op.And(op.Not(op.Less(x, y)), op.Not(op.IsNaN(x)))


def round_half_even(op: Builder, call: Call, x: ir.Value) -> ir.Value:
    """Round to the nearest integer, ties to the even one; keeps the sign of zero, infinities and NaN."""
    if op.opset >= _ROUND:
        return op.Round(x)
    half = call.number(0.5)
    size = op.Abs(x)
    down = op.Floor(size)
    rest = op.Sub(size, down)
    pairs = op.Mul(down, half)
    is_odd = op.Greater(pairs, op.Floor(pairs))
    up = op.Or(op.Greater(rest, half), op.And(op.Not(op.Less(rest, half)), is_odd))
    rounded = op.Where(up, op.Add(down, call.number(1)), down)
    # The reciprocal tells the negative zero from the other one.
    is_negative = op.Less(op.Div(call.number(1), x), call.number(0))
    return op.Where(is_negative, op.Neg(rounded), rounded)
