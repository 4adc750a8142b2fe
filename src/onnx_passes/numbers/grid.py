"""Values on a grid: a scale times an integer plus a bias, with bounds of the integer, as arrays that broadcast."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from onnx_passes.datatypes.base import EXACT_IN_FLOAT

_SAME = 1e-12
_FEW = 1e6
_EXACT = 2.0**31
_CORNER = 4


def shrink(array: np.ndarray) -> np.ndarray:
    """Keep size 1 along every axis on which all is the same."""
    for axis, size in enumerate(array.shape):
        if size < 2:
            continue
        first, second = _section(array, axis, 0), _section(array, axis, 1)
        corner = (slice(_CORNER),) * array.ndim
        # A corner, then the second section, tell most of what varies apart, without a look at all of it.
        if bool((first[corner] == second[corner]).all() and (first == second).all() and (array == first).all()):
            array = first
    return array


def of_rank(array: np.ndarray, rank: int) -> np.ndarray | None:
    """Add leading axes as broadcasting does, or remove them if they are of size 1."""
    extra = array.ndim - rank
    if extra <= 0:
        return array.reshape((1,) * -extra + array.shape)
    if any(size != 1 for size in array.shape[:extra]):
        return None
    return array.reshape(array.shape[extra:])


def along(array: np.ndarray, axis: int, rank: int) -> np.ndarray:
    """Put a list along one axis of a tensor of some rank; a single number stays one."""
    shape = [1] * rank
    shape[axis] = array.size
    return array.reshape(shape)


def spanned(arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the greatest of several numbers, element by element."""
    return reduce(np.minimum, arrays), reduce(np.maximum, arrays)


def nearly_integer(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the nearest integers, and where they are meant.

    A relative difference of 1e-12 counts as none: it is far below what two different ``float32`` scales or
    their products can have, and far above the rounding of ``float64``. Beyond a million only integers count.
    """
    with np.errstate(invalid="ignore"):
        nearest = np.rint(array)
        size = np.abs(array)
        close = (np.abs(array - nearest) <= _SAME * np.maximum(1.0, size)) & (size <= _FEW)
        return nearest, close | ((array == nearest) & (size <= _EXACT))


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Tell whether scales or biases are the same, but for what rounding in ``float64`` can do."""
    return bool((np.abs(a - b) <= _SAME * np.maximum(np.abs(a), np.abs(b))).all())


def total(array: np.ndarray, axes: Collection[int], sizes: Collection[int]) -> np.ndarray:
    """Sum up along axes of the given sizes, also where the array stands for all with size 1."""
    count = 1
    for axis, size in zip(axes, sizes, strict=True):
        if array.shape[axis] == 1:
            count *= size
    return array.sum(axis=tuple(axes), keepdims=True) * count


def _section(array: np.ndarray, axis: int, index: int) -> np.ndarray:
    return array[(slice(None),) * axis + (slice(index, index + 1),)]


LIMIT = 2**62
_FLOAT_EXACT = 2.0**53

Change = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class Grid:
    """``x = scale * q + bias`` for integers ``q`` with ``low <= q <= high``.

    Each array has the rank of the tensor, and along each axis size 1 or the size of the tensor. The grid is what
    exact arithmetic gives; a computation in floats stays near it. Scales are never 0, may be negative, and
    integers are never beyond ``2**62``: what can be further out has no grid. ``exact`` tells that no float has been
    rounded on the way, so that the tensor holds exactly what the grid says.
    """

    scale: np.ndarray
    bias: np.ndarray
    low: np.ndarray
    high: np.ndarray
    exact: bool = False

    @staticmethod
    def of(scale: np.ndarray, bias: np.ndarray, low: np.ndarray, high: np.ndarray) -> Grid | None:
        """Make a grid, if the numbers are fit for one; integers may be given as floats."""
        scale, bias = np.asarray(scale, np.float64), np.asarray(bias, np.float64)
        if not (np.isfinite(scale).all() and np.isfinite(bias).all() and (scale != 0).all()):
            return None
        lowest, highest = _integers(low, np.floor), _integers(high, np.ceil)
        if lowest is None or highest is None:
            return None
        least = shrink(lowest)
        # Bounds that are one array are those of a constant, however large.
        most = least if high is low else shrink(highest)
        return Grid(shrink(scale), shrink(bias), least, most)

    @staticmethod
    def integers(low: np.ndarray, high: np.ndarray) -> Grid | None:
        """Make the grid of a tensor that holds integers itself."""
        one = np.ones((1,) * np.ndim(low))
        return Grid.of(one, np.zeros_like(one), low, high)

    @property
    def is_integer(self) -> bool:
        """Tell whether the tensor itself holds integers; if the grid is ``exact``, in floats as well."""
        return bool((self.scale == 1).all() and (self.bias == 0).all())

    @property
    def is_point(self) -> bool:
        """Tell whether every element has a single value."""
        return self.low is self.high or bool((self.low == self.high).all())

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the least and the greatest value, as exact arithmetic has them."""
        a = self.scale * self.low + self.bias
        if self.high is self.low:
            return a, a
        b = self.scale * self.high + self.bias
        return np.minimum(a, b), np.maximum(a, b)

    def is_held(self, limit: float = EXACT_IN_FLOAT) -> bool:
        """Tell whether floats with all integers up to a limit can hold all values, of scales that are powers of 2."""
        centred = self.centred()
        if centred is None or (np.abs(np.frexp(self.scale)[0]) != 0.5).any():
            return False
        ends = {id(end): end for end in (centred.low, centred.high)}.values()
        return all(-limit <= end.min(initial=0) and end.max(initial=0) <= limit for end in ends)

    @property
    def exact_in(self) -> np.ndarray | None:
        """Return the largest integer in size if the tensor holds exactly what an unbiased grid says."""
        if not self.exact or (self.bias != 0).any():
            return None
        low = np.abs(self.low)
        return low if self.high is self.low else np.maximum(low, np.abs(self.high))

    def mapped(self, change: Change) -> Grid:
        """Apply a movement of elements to all arrays alike."""
        low = change(self.low)
        high = low if self.high is self.low else change(self.high)
        return Grid(shrink(change(self.scale)), shrink(change(self.bias)), shrink(low), shrink(high), self.exact)

    def centred(self) -> Grid | None:
        """Return the same grid without bias: there is one if the bias is a multiple of the scale."""
        return self.based_on(np.zeros((1,) * self.bias.ndim))

    def based_on(self, bias: np.ndarray) -> Grid | None:
        """Return the same grid with another bias, if it is on the grid."""
        if np.array_equal(self.bias, bias):
            return self
        steps, meant = nearly_integer((self.bias - bias) / self.scale)
        if not meant.all():
            return None
        shift = steps.astype(np.int64)
        return Grid.of(self.scale, bias, self.low + shift, self.high + shift)

    def in_steps_of(self, scale: np.ndarray) -> Grid | None:
        """Return the same grid, or a finer one that contains it, with another scale."""
        if np.array_equal(self.scale, scale):
            return self
        ratio, meant = nearly_integer(self.scale / scale)
        if not meant.all() or (ratio == 0).any():
            return None
        return _product(scale, self.bias, self, (ratio, ratio))

    def uniform(self, axes: Collection[int]) -> Grid | None:
        """Return a grid whose scale and bias are the same along axes."""
        scale, bias = self.scale, self.bias
        for axis in axes:
            if scale.shape[axis] > 1:
                least = np.abs(scale).argmin(axis=axis, keepdims=True)
                scale = np.take_along_axis(scale, least, axis=axis)
            if bias.shape[axis] > 1:
                bias = np.take(bias, [0], axis=axis)
        finer = self.in_steps_of(scale)
        return None if finer is None else finer.based_on(bias)

    def joined(self, axes: Collection[int]) -> Grid | None:
        """Return the grid of what may be any of the elements along axes."""
        axes = tuple(axes)
        grid = self.uniform(axes)
        if grid is None:
            return None
        low, high = grid.low.min(axis=axes, keepdims=True), grid.high.max(axis=axes, keepdims=True)
        found = Grid.of(grid.scale, grid.bias, low, high)
        return None if found is None else replace(found, exact=self.exact)

    def scaled(self, factor: np.ndarray) -> Grid | None:
        """Return the grid of a multiple; where the factor is 0 a single value remains."""
        gone = factor == 0
        if not gone.any():
            return Grid.of(self.scale * factor, self.bias * factor, self.low, self.high)
        return Grid.of(
            np.where(gone, self.scale, self.scale * factor),
            np.where(gone, 0.0, self.bias * factor),
            np.where(gone, 0, self.low),
            np.where(gone, 0, self.high),
        )

    def shifted(self, offset: np.ndarray) -> Grid | None:
        """Return the grid of a sum with a number."""
        return Grid.of(self.scale, self.bias + offset, self.low, self.high)

    def negated(self) -> Grid | None:
        """Return the grid of the negative."""
        return Grid.of(self.scale, -self.bias, -self.high, -self.low)

    def at_least(self, limit: np.ndarray) -> Grid | None:
        """Return the grid of the greater of the value and a limit: the limit is on the grid, or does not matter."""
        with np.errstate(invalid="ignore"):
            place = (limit - self.bias) / self.scale
        nearest, meant = self._places(limit, place)
        up = self.scale > 0
        above = np.where(up, self.low >= place, self.high <= place)
        below = np.where(up, self.high <= place, self.low >= place) & np.isfinite(limit) & ~meant & ~above
        if not (meant | above | below).all():
            return None
        step = np.where(meant, nearest, 0)
        low = np.where(meant, np.where(up, np.maximum(self.low, step), np.minimum(self.low, step)), self.low)
        high = np.where(meant, np.where(up, np.maximum(self.high, step), np.minimum(self.high, step)), self.high)
        return Grid.of(
            self.scale,
            np.where(below, limit, self.bias) if below.any() else self.bias,
            np.where(below, 0, low),
            np.where(below, 0, high),
        )

    def _places(self, limit: np.ndarray, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the integers of limits, and where they are meant: a point of the grid as float32 has it is one too."""
        nearest, meant = nearly_integer(place)
        with np.errstate(invalid="ignore", over="ignore"):
            rounded = (self.scale * nearest + self.bias).astype(np.float32)
            return nearest, meant | (rounded == limit)

    def at_most(self, limit: np.ndarray) -> Grid | None:
        """Return the grid of the lesser of the value and a limit: the limit is on the grid, or does not matter."""
        negative = self.negated()
        result = None if negative is None else negative.at_least(-limit)
        return None if result is None else result.negated()

    def holding(self, value: np.ndarray) -> Grid | None:
        """Return the grid of what may also be a given value, if that is on it."""
        place, meant = nearly_integer((value - self.bias) / self.scale)
        if not meant.all():
            return None
        return Grid.of(self.scale, self.bias, np.minimum(self.low, place), np.maximum(self.high, place))

    def of_rank(self, rank: int) -> Grid | None:
        """Add or remove leading axes of size 1."""
        scale, bias, low = (of_rank(array, rank) for array in (self.scale, self.bias, self.low))
        high = low if self.high is self.low else of_rank(self.high, rank)
        if scale is None or bias is None or low is None or high is None:
            return None
        return Grid(scale, bias, low, high, self.exact)


def in_common_steps(grids: Sequence[Grid]) -> list[Grid] | None:
    """Return the grids with one scale: that of the finest, if it divides the others."""
    scale = grids[0].scale
    for grid in grids[1:]:
        scale = np.where(np.abs(grid.scale) < np.abs(scale), grid.scale, scale)
    finer = [grid.in_steps_of(scale) for grid in grids]
    return [grid for grid in finer if grid is not None] if None not in finer else None


def aligned(grids: Sequence[Grid]) -> list[Grid] | None:
    """Return the grids with one scale and one bias, if there is a grid that contains all of them."""
    finer = in_common_steps(grids)
    if finer is None:
        return None
    based = [grid.based_on(finer[0].bias) for grid in finer]
    return [grid for grid in based if grid is not None] if None not in based else None


def product_of(a: Grid, b: Grid) -> Grid | None:
    """Return the grid of a product: both must be without bias, or have one that can be moved into the integers."""
    first, second = a.centred(), b.centred()
    if first is None or second is None:
        return None
    scale = first.scale * second.scale
    return _product(scale, np.zeros((1,) * scale.ndim), first, (second.low, second.high))


def sum_of(a: Grid, b: Grid) -> Grid | None:
    """Return the grid of a sum, if one scale divides the other."""
    common = in_common_steps((a, b))
    if common is None:
        return None
    a, b = common
    return Grid.of(a.scale, a.bias + b.bias, a.low + b.low, a.high + b.high)


def _product(scale: np.ndarray, bias: np.ndarray, grid: Grid, by: tuple[np.ndarray, np.ndarray]) -> Grid | None:
    low, high = by
    sizes = np.maximum(np.abs(low), np.abs(high)).astype(np.float64)
    if (sizes * np.maximum(np.abs(grid.low), np.abs(grid.high)) >= LIMIT).any():
        return None
    low, high = low.astype(np.int64), high.astype(np.int64)
    corners = (grid.low * low, grid.low * high, grid.high * low, grid.high * high)
    least, most = corners[0], corners[0]
    for corner in corners[1:]:
        least, most = np.minimum(least, corner), np.maximum(most, corner)
    return Grid.of(scale, bias, least, most)


def _integers(bounds: np.ndarray, towards: Callable[[np.ndarray], np.ndarray]) -> np.ndarray | None:
    """Return integer bounds, further out where floats can have lost the last digits."""
    bounds = np.asarray(bounds)
    if bounds.dtype.kind in "iub":
        result = bounds.astype(np.int64, copy=False)
        return result if result.max(initial=0) <= LIMIT and result.min(initial=0) >= -LIMIT else None
    # Arrays may be large: each is looked at as few times as can be. NaN is not within any limit.
    size = np.abs(bounds).max(initial=0)
    if not size <= LIMIT / 2:
        return None
    rounded = np.rint(bounds)
    if size + 1 >= _FLOAT_EXACT:
        outward = np.abs(rounded) * 2.0**-50
        rounded = np.where(
            np.abs(rounded) < _FLOAT_EXACT,
            rounded,
            towards(rounded - outward if towards is np.floor else rounded + outward),
        )
    return rounded.astype(np.int64)
