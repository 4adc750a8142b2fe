"""Operators that are younger than opset 9, in the words of every version from there on.

In ONNX Runtime, Where makes a negative zero positive if it comes from the second input, and keeps one from the third.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.definition import Call

if TYPE_CHECKING:
    from onnx_passes.graph.builder import Builder

_ROUND, _EQUAL, _GREATER_OR_EQUAL = 11, 11, 12


def greater_or_equal(op: Builder, x: ir.Value, y: Any) -> ir.Value:
    """Compare floats; nothing is greater than or equal to NaN."""
    if op.opset >= _GREATER_OR_EQUAL:
        return op.GreaterOrEqual(x, y)
    # Equal is not for floats yet.
    return op.And(op.Not(op.Less(x, y)), op.Not(op.IsNaN(x)))


def equal(op: Builder, x: Any, y: Any) -> ir.Value:
    """Compare floats; nothing is equal to NaN, ``y`` is a number."""
    if op.opset >= _EQUAL:
        return op.Equal(x, y)
    return op.And(op.Not(op.Or(op.Less(x, y), op.Greater(x, y))), op.Not(op.IsNaN(x)))


def power_of_two(op: Builder, exponent: Any, dtype: ir.DataType) -> ir.Value:
    """Raise two to a power of the given type; computed in float64 and rounded once, whatever the type."""
    two = np.array(2, np.float64)
    if dtype is ir.DataType.DOUBLE:
        return op.Pow(two, exponent)
    return op.Cast(op.Pow(two, op.Cast(exponent, to=ir.DataType.DOUBLE)), to=dtype)


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
    # The reciprocal tells the negative zero from the other one, but not the infinities.
    zero = call.number(0)
    is_positive = op.Or(op.Greater(x, zero), op.Greater(op.Div(call.number(1), x), zero))
    return op.Where(is_positive, rounded, op.Neg(rounded))
