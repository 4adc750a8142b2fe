"""Which tensors hold integers, which types hold these, and what ONNX Runtime multiplies without loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.ranges.range import Range
from onnx_passes.analysis.sums import Bounds, size_of, sums_within
from onnx_passes.datatypes.limits import EXACT_IN_FLOAT
from onnx_passes.graph.constants import constant

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


def integers_of(value: ir.Value, ranges: Mapping[ir.Value, Range]) -> Bounds | None:
    """Return the bounds of a value that is known to be integers, but for rounding."""
    known = ranges.get(value)
    grid = None if known is None else known.integer_grid
    return None if grid is None else (int(grid.low.min()), int(grid.high.max()))


def held_integers(value: ir.Value | None, ranges: Mapping[ir.Value, Range]) -> Bounds | None:
    """Return the bounds of floats that hold integers: none of them is rounded, or beyond 32 bits."""
    if value is None or value.dtype not in FLOATS:
        return None
    held = constant(value)
    found = integers_of(value, ranges) if held is None else bounds_of(held)
    return found if found is not None and size_of(found) <= largest_in(value.dtype) else None


def is_exact_product(node: ir.Node, bounds: Callable[[ir.Value | None], Bounds | None]) -> bool:
    """Tell whether a product is of integers, and none of its sums passes what its type and 32 bits hold."""
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    added = (0, 0) if bias is None else bounds(bias)
    return added is not None and sums_within(node, bounds, largest_in(node.outputs[0].dtype) - size_of(added))
