"""The integers that a number of bits can hold, and how values are kept among them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.portable import power_of_two
from onnx_passes.ops.quantizer import Working

if TYPE_CHECKING:
    from onnx_passes.graph.builder import Builder

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
    """Build what brings values into the range of bits that an input tells.

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
