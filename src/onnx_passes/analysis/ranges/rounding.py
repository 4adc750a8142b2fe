"""What element types do to numbers: how far they round, and which integers they hold."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from onnx_passes.datatypes.base import EXACT_IN_DOUBLE, EXACT_IN_FLOAT

_UNIT = {ir.DataType.FLOAT16: 2.0**-11, ir.DataType.BFLOAT16: 2.0**-8, ir.DataType.DOUBLE: 2.0**-53}
_EXACT = {ir.DataType.FLOAT16: 2.0**11, ir.DataType.BFLOAT16: 2.0**8, ir.DataType.DOUBLE: EXACT_IN_DOUBLE}
_NUMPY = {ir.DataType.FLOAT: np.float32, ir.DataType.FLOAT16: np.float16}


def unit_of(dtype: ir.DataType | None) -> float:
    """Return the relative error of one rounding."""
    return _UNIT.get(dtype, 2.0**-24) if dtype is not None else 2.0**-24


def exact_up_to(dtype: ir.DataType | None) -> float:
    """Return up to which integer all are represented."""
    limits = integer_limits(dtype)
    if limits is not None:
        return limits[1]
    return _EXACT.get(dtype, EXACT_IN_FLOAT) if dtype is not None else EXACT_IN_FLOAT


def integer_limits(dtype: ir.DataType | None) -> tuple[int, int] | None:
    """Return the least and the greatest integer of an integer or boolean type."""
    if dtype is None or not (dtype.is_integer() or dtype == ir.DataType.BOOL):
        return None
    if dtype == ir.DataType.BOOL:
        return 0, 1
    bits = dtype.bitwidth
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if dtype.is_signed() else (0, 2**bits - 1)


def outward(low: np.ndarray, high: np.ndarray, dtype: ir.DataType | None) -> tuple[np.ndarray, np.ndarray]:
    """Round bounds away from each other, to numbers of the type: what is rounded between them stays there."""
    if dtype == ir.DataType.DOUBLE:
        return low, high
    if dtype == ir.DataType.BFLOAT16:
        return low - np.abs(low) * 2.0**-8, high + np.abs(high) * 2.0**-8
    kind = _NUMPY.get(dtype, np.float32) if dtype is not None else np.float32
    with np.errstate(over="ignore"):
        least, most = low.astype(kind), high.astype(kind)
        below, above = least > low, most < high
        if below.any():
            least = np.where(below, np.nextafter(least, kind(-math.inf)), least)
        if above.any():
            most = np.where(above, np.nextafter(most, kind(math.inf)), most)
    return least.astype(np.float64), most.astype(np.float64)
