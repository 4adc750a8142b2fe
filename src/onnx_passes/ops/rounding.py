"""Rounding, ranges of integers and powers of two, built of operators of every version from opset 9 on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.definition import Attribute, Call
from onnx_passes.ops.quantizer import Working

if TYPE_CHECKING:
    from onnx_passes.graph.builder import Builder


MODES = (
    "ROUND",
    "HALF_EVEN",
    "CEIL",
    "FLOOR",
    "UP",
    "DOWN",
    "HALF_UP",
    "HALF_DOWN",
    "ROUND_TO_ZERO",
)
"""ROUND and HALF_EVEN are one; so are DOWN and ROUND_TO_ZERO, which Brevitas writes."""


def rounding_mode(default: str) -> Attribute:
    """Describe the attribute that names a mode."""
    doc = (
        "ROUND or HALF_EVEN: to the nearest, ties to even; HALF_UP, HALF_DOWN: to the nearest, ties away from or "
        "towards zero; UP: away from zero; DOWN or ROUND_TO_ZERO: towards zero; CEIL; FLOOR"
    )
    return Attribute("rounding_mode", "string", doc, default=default, choices=MODES)


def round_nodes(op: Builder, call: Call, mode: str, x: ir.Value) -> ir.Value:
    """Build the nodes that round a value of the type that ``call`` makes numbers of."""
    if mode == "CEIL":
        return op.Ceil(x)
    if mode == "FLOOR":
        return op.Floor(x)
    if mode in ("DOWN", "ROUND_TO_ZERO"):
        return op.Where(op.Greater(x, call.number(0)), op.Floor(x), op.Ceil(x))
    half = call.number(0.5)
    if mode == "UP":
        return op.Mul(op.Sign(x), op.Ceil(op.Abs(x)))
    if mode == "HALF_UP":
        return op.Mul(op.Sign(x), op.Floor(op.Add(op.Abs(x), half)))
    if mode == "HALF_DOWN":
        return op.Mul(op.Sign(x), op.Ceil(op.Sub(op.Abs(x), half)))
    return round_half_even(op, call, x)


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
    """Raise two to a power of the given type; computed in float64 and rounded once, for any type."""
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


_CLIP_WITH_INPUTS, _CLIP_OF_ALL_TYPES = 11, 12


def bounds(bits: np.ndarray, *, signed: bool, narrow: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the greatest integer; a fraction of a bit is a fraction of the range."""
    one = bits.dtype.type(1)
    if signed:
        half = two_to_the(bits - one)
        return (one - half if narrow else -half), half - one
    return np.zeros_like(bits), two_to_the(bits) - bits.dtype.type(1 + narrow)


def two_to_the(exponent: np.ndarray) -> np.ndarray:
    """Compute a power of two in float64 and round it once, for the same result on every machine."""
    return np.exp2(exponent.astype(np.float64)).astype(exponent.dtype)


def clamp(x: np.ndarray, bits: np.ndarray, *, signed: bool, narrow: bool) -> np.ndarray:
    """Bring values into the range; NaN stays, and so does the sign of zero."""
    low, high = bounds(bits, signed=signed, narrow=narrow)
    x = np.where(x > high, high, x)
    return np.where(x < low, low, x)


def clamp_nodes(
    op: Builder, call: Working, x: ir.Value, bits: int, *, signed: bool, narrow: bool, negative_zero: bool
) -> ir.Value:
    """Build the nodes that clamp values to the range of bits given by an input.

    Which of two zeros is the greater is left open by Clip, Min and Max, so they serve where it does not matter: the
    range does not end at zero, or values are never the negative one.
    """
    known = call.constant(bits)
    if known is None:
        low, high = _bounds_nodes(op, call, bits, signed=signed, narrow=narrow)
        matters = negative_zero
    else:
        low, high = bounds(known, signed=signed, narrow=narrow)
        matters = negative_zero and bool(((low == 0) | (high == 0)).any())
        if not matters and (low <= high).all() and call.is_scalar(known):
            return _clip(op, call, x, low, high)
    if not matters:
        return op.Max(op.Min(x, high), low)
    x = op.Where(op.Greater(x, high), high, x)
    return op.Where(op.Less(x, low), low, x)


def _clip(op: Builder, call: Working, x: ir.Value, low: np.ndarray, high: np.ndarray) -> ir.Value:
    if op.opset >= _CLIP_OF_ALL_TYPES or (op.opset >= _CLIP_WITH_INPUTS and call.dtype is ir.DataType.FLOAT):
        return op.Clip(x, low.reshape(()), high.reshape(()))
    if call.dtype is ir.DataType.FLOAT:
        return op.Clip(x, min=float(low.item()), max=float(high.item()))
    return op.Max(op.Min(x, high), low)


def _bounds_nodes(
    op: Builder, call: Working, bits: int, *, signed: bool, narrow: bool
) -> tuple[ir.Value | np.ndarray, ir.Value]:
    given, one = call.input(bits), call.number(1)
    if signed:
        half = power_of_two(op, op.Sub(given, one), call.dtype)
        return (op.Sub(one, half) if narrow else op.Neg(half)), op.Sub(half, one)
    return call.number(0), op.Sub(power_of_two(op, given, call.dtype), call.number(1 + narrow))
