"""Arrays that stand for a whole tensor: of its rank, and of size 1 along each axis on which nothing varies."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import reduce

import numpy as np

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
