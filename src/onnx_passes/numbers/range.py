"""The range of a tensor, an interval and perhaps a grid, and how element types round numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.datatypes.base import EXACT_IN_DOUBLE, EXACT_IN_FLOAT
from onnx_passes.numbers.grid import Grid, of_rank, shrink


@dataclass(frozen=True, eq=False)
class Range:
    """The bounds that a computation in the element type of the tensor cannot leave, and the grid it stays near.

    Arrays have the rank of the tensor and along each axis size 1 or the size of the tensor; of an unknown rank is
    known what holds for all elements, with rank 0. Nothing is said of runs in which NaN occurs.
    """

    low: np.ndarray
    high: np.ndarray
    grid: Grid | None = None

    @staticmethod
    def of(low: float | np.ndarray, high: float | np.ndarray, grid: Grid | None = None) -> Range:
        """Make a range from numbers or arrays."""
        return Range(np.asarray(low, np.float64), np.asarray(high, np.float64), grid)

    @staticmethod
    def point(value: np.ndarray) -> Range:
        """Make the range of a constant; if it holds integers they are its grid."""
        exact = shrink(value.astype(np.float64))
        if not np.isfinite(exact).all():
            return UNKNOWN if np.isnan(exact).any() else Range(exact, exact.copy())
        if value.dtype.kind in "iub":
            integers = shrink(value.astype(np.int64)) if value.dtype != np.uint64 else None
        else:
            integers = exact.astype(np.int64) if _holds_integers(exact) else None
        return Range(exact, exact, None if integers is None else Grid.integers(integers, integers))

    @staticmethod
    def integers(low: float | np.ndarray, high: float | np.ndarray) -> Range:
        """Make the range of a tensor that holds integers."""
        low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
        return Range(low, high, Grid.integers(low, high))

    @property
    def is_point(self) -> bool:
        """Tell whether every element has a single, finite value."""
        if self.low is self.high:
            return True
        return bool((self.low == self.high).all() and np.isfinite(self.low).all())

    @property
    def is_finite(self) -> bool:
        """Tell whether there are bounds on both sides, everywhere."""
        return bool(np.isfinite(self.low).all() and np.isfinite(self.high).all())

    @property
    def is_unknown(self) -> bool:
        """Tell whether nothing is known."""
        return self.grid is None and bool((self.low == -math.inf).all() and (self.high == math.inf).all())

    @property
    def integer_grid(self) -> Grid | None:
        """Return the grid of a tensor that holds integers itself."""
        return self.grid if self.grid is not None and self.grid.is_integer else None

    @property
    def whole_grid(self) -> Grid | None:
        """Return the grid of a tensor whose elements are integers, whatever steps they are apart."""
        grid = self.grid
        if grid is None or not all((part == np.rint(part)).all() for part in (grid.scale, grid.bias)):
            return None
        return grid

    @property
    def size(self) -> np.ndarray:
        """Return the bound of the absolute value."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    @property
    def exact(self) -> np.ndarray:
        """Return a single value as exact arithmetic has it: from the grid, where it has one."""
        return self.low if self.grid is None else self.grid.bounds[0]

    def mapped(self, change: Callable[[np.ndarray], np.ndarray]) -> Range:
        """Apply a movement of elements to all arrays alike."""
        low = change(self.low)
        high = low if self.high is self.low else change(self.high)
        return Range(low, high, None if self.grid is None else self.grid.mapped(change))

    def joined(self, axes: Collection[int]) -> Range:
        """Return the range of what may be any of the elements along axes."""
        axes = tuple(axes)
        if not axes:
            return self
        return Range(
            self.low.min(axis=axes, keepdims=True),
            self.high.max(axis=axes, keepdims=True),
            None if self.grid is None else self.grid.joined(axes),
        )

    def overall(self) -> Range:
        """Return what holds for all elements, with rank 0; arrays may be of different ranks before."""
        grid = self.grid
        arrays = [self.low, self.high, *(() if grid is None else (grid.scale, grid.bias, grid.low, grid.high))]
        rank = max(array.ndim for array in arrays)
        return self.of_rank(rank).joined(range(rank)).mapped(lambda array: array.reshape(()))

    def without_grid(self) -> Range:
        """Return the interval alone."""
        return Range(self.low, self.high)

    def of_rank(self, rank: int) -> Range:
        """Add leading axes, or remove them; what cannot be removed is joined."""
        low = of_rank(self.low, rank)
        high = low if self.high is self.low else of_rank(self.high, rank)
        grid = None if self.grid is None else self.grid.of_rank(rank)
        if low is None or high is None or (self.grid is not None and grid is None):
            return self.overall().of_rank(rank)
        return Range(low, high, grid)


UNKNOWN = Range.of(-math.inf, math.inf)


def bits_for(low: int, high: int) -> int:
    """Return how many bits hold the integers of a range: two's complement if any is negative."""
    if low > high:
        raise ValueError(f"{low} is greater than {high}")
    if low >= 0:
        return int(high).bit_length()
    return max(int(-low - 1).bit_length(), int(max(high, 0)).bit_length()) + 1


def _holds_integers(array: np.ndarray) -> bool:
    flat = array.reshape(-1)
    few = flat[:64]
    if not np.isfinite(few).all() or (few != np.rint(few)).any():
        return False
    # NaN is below no number.
    return bool(np.abs(flat).max(initial=0) < 2.0**62 and (flat == np.rint(flat)).all())


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
