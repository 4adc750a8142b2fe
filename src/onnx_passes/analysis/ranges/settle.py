"""Bring what a rule found into the form of the tensor that it is about."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.ranges.arrays import shrink
from onnx_passes.analysis.ranges.grid import Grid
from onnx_passes.analysis.ranges.range import UNKNOWN, Range
from onnx_passes.analysis.ranges.rounding import integer_limits, outward

_MOST = 1 << 16
"""Bounds of more numbers than this are joined along their longest axes, unless the tensor is constant."""
_NOT_FOLLOWED = frozenset(dtype for dtype in ir.DataType if dtype.is_floating_point() and dtype.bitwidth < 16)
"""Floats of so few bits that rounding to them is no matter of the last digit."""


def settle(found: Range, value: ir.Value) -> Range:
    """Fit arrays to rank and shape, round bounds outwards, and let integer types have their limits."""
    if (
        value.dtype in _NOT_FOLLOWED
        or np.isnan(found.low).any()
        or np.isnan(found.high).any()
        or (found.low.size == 0 or found.high.size == 0)
    ):
        found = UNKNOWN
    fitted = _limited(_fitted(found, value))
    limits = integer_limits(value.dtype)
    if limits is not None:
        return _integers(fitted, limits)
    if fitted.low is fitted.high:
        low = high = shrink(fitted.low)
    else:
        low, high = outward(shrink(fitted.low), shrink(fitted.high), value.dtype)
    return Range(low, high, fitted.grid)


def _fitted(found: Range, value: ir.Value) -> Range:
    shape = value.shape
    if shape is None:
        return found.overall()
    found = found.of_rank(len(shape))
    wrong = [
        axis
        for axis, dim in enumerate(shape)
        if isinstance(dim, int) and any(array.shape[axis] not in (1, dim) for array in _arrays(found))
    ]
    return found.joined(wrong) if wrong else found


def _arrays(found: Range) -> list[np.ndarray]:
    grid = found.grid
    return [found.low, found.high] + ([] if grid is None else [grid.scale, grid.bias, grid.low, grid.high])


def _limited(found: Range) -> Range:
    grid = found.grid
    low, high = found.low, found.high
    if max(low.size, high.size) > _MOST and not found.is_point:
        low, high = _joined(low, high)
    if grid is not None and max(grid.low.size, grid.high.size) > _MOST and not grid.is_point:
        least, most = _joined(grid.low, grid.high)
        grid = Grid(grid.scale, grid.bias, least, most, grid.exact)
    return Range(low, high, grid)


def _joined(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    while max(low.size, high.size) > _MOST:
        axis = int(np.argmax(np.maximum(low.shape, high.shape)))
        low, high = low.min(axis=axis, keepdims=True), high.max(axis=axis, keepdims=True)
    return low, high


def _integers(found: Range, limits: tuple[int, int]) -> Range:
    least, most = limits
    low, high = np.ceil(found.low), np.floor(found.high)
    # Beyond its limits an integer type wraps around.
    if (low < least).any() or (high > most).any():
        rank = (1,) * low.ndim
        low, high = np.full(rank, float(least)), np.full(rank, float(most))
        return Range(low, high, Grid.integers(low, high))
    if found.integer_grid is not None:
        return Range(shrink(found.low), shrink(found.high), found.grid)
    return Range(shrink(low), shrink(high), Grid.integers(low, high))
