"""Sums of products: bounds of what a matrix product adds up, for intervals and for integers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from onnx_passes.analysis.ranges.arrays import nearly_integer, same, spanned
from onnx_passes.analysis.ranges.grid import Grid
from onnx_passes.analysis.ranges.range import Range


class Bounds(NamedTuple):
    """The ends of a range, as plain arrays of floats."""

    low: np.ndarray
    high: np.ndarray

    @property
    def is_point(self) -> bool:
        """Tell whether every element has a single value."""
        return self.low is self.high

    @property
    def size(self) -> np.ndarray:
        """Return the bound of the absolute value."""
        return np.abs(self.low) if self.is_point else np.maximum(np.abs(self.low), np.abs(self.high))

    def widened_to(self, value: float) -> Bounds:
        """Let a value be in the range."""
        return Bounds(np.minimum(self.low, value), np.maximum(self.high, value))

    def as_matrix(self, rows: int | None, columns: int | None) -> Bounds:
        """Expand the last two axes to sizes, where they are given."""
        low = _expanded(self.low, rows, columns)
        return Bounds(low, low if self.is_point else _expanded(self.high, rows, columns))


def of_range(found: Range) -> Bounds:
    """Return the ends of the values."""
    return Bounds(found.low, found.low) if found.is_point else Bounds(found.low, found.high)


def of_grid(grid: Grid) -> Bounds:
    """Return the ends of the integers."""
    low = grid.low.astype(np.float64)
    return Bounds(low, low if grid.is_point else grid.high.astype(np.float64))


def matrix_product(a: Bounds, b: Bounds, k: int) -> Bounds:
    """Return bounds of ``a @ b`` with an inner dimension of ``k``; tight if one side is constant."""
    if not a.is_point and not b.is_point:
        return _of_two_ranges(a, b, k)
    row = a if a.low.shape[-1] == a.high.shape[-1] == 1 else None
    a, b = a.as_matrix(None, k), b.as_matrix(k, None)
    if b.is_point:
        if a.is_point:
            exact = np.matmul(a.low, b.low)
            return Bounds(exact, exact)
        above, below = np.maximum(b.low, 0), np.minimum(b.low, 0)
        if row is not None:
            above, below = (part.sum(axis=-2, keepdims=True) for part in (above, below))
            return Bounds(row.low * above + row.high * below, row.high * above + row.low * below)
        return Bounds(a.low @ above + a.high @ below, a.high @ above + a.low @ below)
    above, below = np.maximum(a.low, 0), np.minimum(a.low, 0)
    return Bounds(above @ b.low + below @ b.high, above @ b.high + below @ b.low)


def sum_of_sizes(a: Bounds, b: Bounds, k: int) -> np.ndarray:
    """Return the bound of the sum of the absolute values of all products."""
    return _expanded(a.size, None, k) @ _expanded(b.size, k, None)


def _of_two_ranges(a: Bounds, b: Bounds, k: int) -> Bounds:
    """Multiply what holds for all rows with what holds for all columns."""
    rows = a.low.min(axis=-2, keepdims=True), a.high.max(axis=-2, keepdims=True)
    columns = b.low.min(axis=-1, keepdims=True), b.high.max(axis=-1, keepdims=True)
    turned = [np.swapaxes(column, -1, -2) for column in columns]
    ends = [row * column for row in rows for column in turned]
    low, high = spanned(ends)
    times = k if low.shape[-1] == 1 else 1
    return Bounds(low.sum(axis=-1, keepdims=True) * times, high.sum(axis=-1, keepdims=True) * times)


def _expanded(array: np.ndarray, rows: int | None, columns: int | None) -> np.ndarray:
    shape = list(array.shape)
    if rows is not None:
        shape[-2] = rows
    if columns is not None:
        shape[-1] = columns
    return np.broadcast_to(array, shape)


def uniform_product(a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    """Return the scale of a matrix product, from scales of both sides: their product must not vary along the sum.

    ``a`` is ``[…, M, K]`` and ``b`` is ``[…, K, N]``, each axis of full size or 1; the result is ``[…, M, N]``.
    """
    if a.shape[-1] == 1 and b.shape[-2] == 1:
        return a * b
    first = a[..., :1] * b[..., :1, :]
    varying = a[..., :, :, None] * b[..., None, :, :]
    expected = first[..., :, None, :]
    return first if same(varying, np.broadcast_to(expected, varying.shape)) else None


def seen_by_columns(scales: np.ndarray, matrix: np.ndarray) -> np.ndarray | None:
    """Return the one scale that each column of a constant matrix sees of rows that are scaled each in its own way.

    ``scales`` is ``[…, 1, K]`` and varies along nothing else, ``matrix`` is ``[K, N]``; the result is ``[…, 1, N]``.
    Rows with a zero do not count: a depthwise convolution, written as a matrix, sees one channel in each column.
    """
    if scales.size != scales.shape[-1] or matrix.ndim != 2 or matrix.shape[0] != scales.size:
        return None
    used, each = matrix != 0, scales.reshape(-1, 1)
    low, high = np.where(used, each, np.inf).min(axis=0), np.where(used, each, -np.inf).max(axis=0)
    found = np.where(used.any(axis=0), low, 1.0)
    return found.reshape(*scales.shape[:-1], -1) if np.array_equal(found, np.maximum(high, found)) else None


def finer(grid: Grid, axis: int) -> Grid:
    """Let the scale be the same along an axis, if it can."""
    if grid.scale.shape[axis] == 1:
        return grid
    least = np.take_along_axis(grid.scale, np.abs(grid.scale).argmin(axis=axis, keepdims=True), axis=axis)
    _, meant = nearly_integer(grid.scale / least)
    return (grid.in_steps_of(least) or grid) if meant.all() else grid
