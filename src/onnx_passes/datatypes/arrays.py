"""Exact properties of whole arrays: integrality and bounds of elements, and ranges of ONNX's element types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def numbers(array: Array) -> Array | None:
    """Return an array that numpy can compare, with the same values; None for texts and complex numbers."""
    kind = array.dtype.kind
    if kind in "iuf":
        return array
    if kind == "b":
        return array.view(np.uint8)
    # The narrow types of ml_dtypes count as void, and every value of theirs is a float32, too.
    return array.astype(np.float32) if kind == "V" else None


def between(array: Array, low: int | Fraction, high: int | Fraction) -> Array:
    """Return which elements lie between two numbers; NaN and infinities do not."""
    if array.dtype.kind in "iu":
        return (array >= _ceil(low)) & (array <= -_ceil(-high))
    return (array >= -_rounded_down(-low, array.dtype)) & (array <= _rounded_down(high, array.dtype))


def whole(array: Array) -> Array:
    """Return which elements are integers; infinities count as such."""
    if array.dtype.kind in "iu":
        return np.ones(array.shape, dtype=bool)
    return np.trunc(array) == array


def scaled(array: Array, exponents: int | Array) -> Array:
    """Multiply floats by powers of two, exactly unless the result overflows or underflows."""
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


@dataclass(frozen=True)
class ElementType:
    """An element type: its finite range, significant bits, and the exponent of its smallest positive number."""

    bits: int
    low: int | Fraction
    high: int | Fraction
    precision: int
    finest: int


def _unsigned(bits: int) -> ElementType:
    return ElementType(bits, 0, 2**bits - 1, bits, 0)


def _signed(bits: int) -> ElementType:
    return ElementType(bits, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1, bits, 0)


def _float(bits: int, high: int | Fraction, precision: int, finest: int) -> ElementType:
    return ElementType(bits, -high, high, precision, finest)


ELEMENTS: dict[str, ElementType] = {
    "UINT2": _unsigned(2),
    "INT2": _signed(2),
    "UINT4": _unsigned(4),
    "INT4": _signed(4),
    "FLOAT4E2M1": _float(4, 6, 2, -1),
    "UINT8": _unsigned(8),
    "INT8": _signed(8),
    "FLOAT8E4M3FN": _float(8, 448, 4, -9),
    "FLOAT8E5M2": _float(8, 57344, 3, -16),
    "UINT16": _unsigned(16),
    "INT16": _signed(16),
    "FLOAT16": _float(16, 65504, 11, -24),
    "BFLOAT16": _float(16, (2**8 - 1) * 2**120, 8, -133),
    "UINT32": _unsigned(32),
    "INT32": _signed(32),
    "FLOAT": _float(32, (2**24 - 1) * 2**104, 24, -149),
    "UINT64": _unsigned(64),
    "INT64": _signed(64),
    "DOUBLE": _float(64, (2**53 - 1) * 2**971, 53, -1074),
    "BOOL": ElementType(8, 0, 1, 1, 0),
}
"""By name as in ``onnx_ir.DataType``, the smaller first, and integers before floats."""


def fits(low: int | Fraction, high: int | Fraction, precision: int, finest: int, element: str) -> bool:
    """Return whether an element type holds numbers of this range, precision and grid."""
    known = ELEMENTS.get(element)
    if known is None:
        return False
    return known.low <= low and high <= known.high and precision <= known.precision and finest >= known.finest


def smallest_element(accepts: Callable[[str], bool]) -> str | None:
    """Return the first of the element types, smaller ones first, that is accepted."""
    return next((name for name in ELEMENTS if accepts(name)), None)
