"""Element types that hold integers of a range, and what ONNX Runtime multiplies without loss."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.sums import Bounds, size_of
from onnx_passes.datatypes.limits import EXACT_IN_FLOAT

FLOATS = (ir.DataType.FLOAT, ir.DataType.DOUBLE)
SMALL = (ir.DataType.UINT8, ir.DataType.INT8)
ALL = (*SMALL, ir.DataType.INT32)
_SATURATION = 2**15 - 1
_LARGEST = 2**31 - 2


def largest_in(dtype: ir.DataType | None) -> int:
    """Return the largest integer that floats of a type hold, with all below, and 32 bits as well."""
    return _LARGEST if dtype is ir.DataType.DOUBLE else EXACT_IN_FLOAT


def container(bounds: Bounds, among: tuple[ir.DataType, ...] = ALL) -> ir.DataType | None:
    """Return the first type that holds all integers of a range."""
    for dtype in among:
        limits = np.iinfo(dtype.numpy())
        if limits.min <= bounds[0] and bounds[1] <= limits.max:
            return dtype
    return None


def bounds_of(array: np.ndarray) -> Bounds | None:
    """Return the bounds of an array that holds integers."""
    if array.dtype.kind not in "fiu" or not array.size or not np.isfinite(array).all():
        return None
    if array.dtype.kind == "f" and (array != np.rint(array)).any():
        return None
    return int(array.min()), int(array.max())


def may_saturate(unsigned: Bounds, signed: Bounds) -> bool:
    """Tell whether a product of uint8 with int8 may lose bits.

    Processors without VNNI add products of uint8 and int8 in pairs of 16 bits, and ONNX Runtime lets them saturate.
    """
    return 2 * size_of(unsigned) * size_of(signed) > _SATURATION
