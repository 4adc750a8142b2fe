"""Arrays of exact numbers: numpy arrays of objects, which add, multiply and compare element by element."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, cast

import numpy as np

from onnx_passes.analysis.exact.surd import Number, square_root

_FRACTION = np.frompyfunc(Fraction, 1, 1)
_FLOAT = np.frompyfunc(float, 1, 1)
_ROOT = np.frompyfunc(square_root, 1, 1)


def exactly(array: np.ndarray | float) -> np.ndarray:
    """Return the numbers that the bits of an array say; those of integers, floats and doubles."""
    array = np.asarray(array)
    if array.dtype == object:
        return array
    wide = array.astype(np.int64 if array.dtype.kind in "iub" else np.float64)
    return _objects(_FRACTION(wide.astype(object)), wide.shape)


def nearest(array: np.ndarray) -> np.ndarray:
    """Return the doubles that are nearest to exact numbers."""
    return np.asarray(_FLOAT(array), np.float64)


def roots(array: np.ndarray) -> np.ndarray:
    """Return square roots."""
    return _objects(_ROOT(array), array.shape)


def next_float(number: Number, *, above: bool) -> np.float32:
    """Return the first float that is not less than a number; with ``above``, that is greater."""
    with np.errstate(over="ignore"):
        near = np.float32(float(number))
    while not _passes(near, number, above=above):
        near = np.nextafter(near, np.float32(math.inf))
    while math.isfinite(before := np.nextafter(near, np.float32(-math.inf))) and _passes(before, number, above=above):
        near = before
    return near


def _passes(near: np.float32, number: Number, *, above: bool) -> bool:
    if not math.isfinite(near):
        return bool(near > 0)
    exact = Fraction(float(near))
    return exact > number if above else exact >= number


def _objects(found: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return an array also where numpy returns a number alone, of an array without axes."""
    if isinstance(found, np.ndarray):
        return cast("np.ndarray", found)
    result = np.empty(shape, object)
    result[...] = found
    return result
