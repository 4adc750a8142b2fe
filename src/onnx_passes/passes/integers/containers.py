"""Tensors that hold integers, element types for them, and products that ONNX Runtime computes exactly."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx_ir as ir

from onnx_passes.datatypes.base import EXACT_IN_FLOAT
from onnx_passes.graph.constants import constant
from onnx_passes.numbers.range import Range
from onnx_passes.ops.facts.sums import Bounds, size_of, sums_within

FLOATS = (ir.DataType.FLOAT, ir.DataType.DOUBLE)
SMALL = (ir.DataType.UINT8, ir.DataType.INT8)
ALL = (*SMALL, ir.DataType.INT32)
_SATURATION = 2**15 - 1
_LARGEST = 2**31 - 2


def largest_in(dtype: ir.DataType | None) -> int:
    """Return the largest integer up to which a float type holds all integers, limited to 32 bits."""
    return _LARGEST if dtype is ir.DataType.DOUBLE else EXACT_IN_FLOAT


def container(bounds: Bounds, among: tuple[ir.DataType, ...] = ALL) -> ir.DataType | None:
    """Return the first element type that holds all integers of a range; None if there is none."""
    for dtype in among:
        limits = np.iinfo(dtype.numpy())
        if limits.min <= bounds[0] and bounds[1] <= limits.max:
            return dtype
    return None


def bounds_of(array: np.ndarray) -> Bounds | None:
    """Return the bounds of an array of integers; None if an element is not an integer."""
    if array.dtype.kind not in "fiu" or not array.size or not np.isfinite(array).all():
        return None
    if array.dtype.kind == "f" and (array != np.rint(array)).any():
        return None
    return int(array.min()), int(array.max())


def may_saturate(unsigned: Bounds, signed: Bounds) -> bool:
    """Return whether a product of uint8 and int8 may saturate.

    Processors without VNNI accumulate pairs of uint8 * int8 products in 16 bits, with saturation.
    """
    return 2 * size_of(unsigned) * size_of(signed) > _SATURATION


def integers_of(value: ir.Value, ranges: Mapping[ir.Value, Range]) -> Bounds | None:
    """Return the bounds of a value that holds integers up to rounding; None otherwise."""
    known = ranges.get(value)
    grid = None if known is None else known.integer_grid
    return None if grid is None else (int(grid.low.min()), int(grid.high.max()))


def held_integers(value: ir.Value | None, ranges: Mapping[ir.Value, Range]) -> Bounds | None:
    """Return the bounds of floats that hold exact integers within 32 bits; None otherwise."""
    if value is None or value.dtype not in FLOATS:
        return None
    held = constant(value)
    found = integers_of(value, ranges) if held is None else bounds_of(held)
    return found if found is not None and size_of(found) <= largest_in(value.dtype) else None


def is_exact_product(node: ir.Node, bounds: Callable[[ir.Value | None], Bounds | None]) -> bool:
    """Return whether a product is of integers and all its sums fit its element type and 32 bits."""
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    added = (0, 0) if bias is None else bounds(bias)
    return added is not None and sums_within(node, bounds, largest_in(node.outputs[0].dtype) - size_of(added))
