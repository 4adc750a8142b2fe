"""Exact questions about whole arrays at once: which elements are integers, which lie between two numbers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def numbers(array: Array) -> Array | None:
    """Return an array that numpy can compare, with the same values; nothing for texts and complex numbers."""
    kind = array.dtype.kind
    if kind in "iuf":
        return array
    if kind == "b":
        return array.view(np.uint8)
    # The narrow types of ml_dtypes count as void, and every value of theirs is a float32, too.
    return array.astype(np.float32) if kind == "V" else None


def between(array: Array, low: int | Fraction, high: int | Fraction) -> Array:
    """Tell which elements lie between two numbers; NaN and infinities do not."""
    if array.dtype.kind in "iu":
        return (array >= _ceil(low)) & (array <= -_ceil(-high))
    return (array >= -_rounded_down(-low, array.dtype)) & (array <= _rounded_down(high, array.dtype))


def whole(array: Array) -> Array:
    """Tell which elements are integers; infinities count as such."""
    if array.dtype.kind in "iu":
        return np.ones(array.shape, dtype=bool)
    return np.trunc(array) == array


def scaled(array: Array, exponents: int | Array) -> Array:
    """Multiply floats by powers of two, in a precision that loses nothing but what overflows or underflows."""
    wide = array.astype(np.float32) if array.dtype == np.float16 else array
    with np.errstate(over="ignore", under="ignore"):
        return np.ldexp(wide, exponents)


def _rounded_down(bound: int | Fraction, dtype: np.dtype[Any]) -> Any:
    """Return the largest finite float that is not above a number: comparing with it decides as the number does."""
    info = np.finfo(dtype)
    largest = Fraction(float(info.max))
    if bound >= largest:
        return info.max
    if bound < -largest:
        return dtype.type(-np.inf)
    nearest = dtype.type(float(bound))
    return np.nextafter(nearest, dtype.type(-np.inf)) if Fraction(float(nearest)) > bound else nearest


def _ceil(number: int | Fraction) -> int:
    return -((-number) // 1)
