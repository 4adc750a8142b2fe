"""What the element types of ONNX tensors can hold exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Element:
    """An element type: its finite range, significant bits, and the exponent of its smallest positive number."""

    bits: int
    low: int | Fraction
    high: int | Fraction
    precision: int
    finest: int


def _unsigned(bits: int) -> Element:
    return Element(bits, 0, 2**bits - 1, bits, 0)


def _signed(bits: int) -> Element:
    return Element(bits, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1, bits, 0)


def _float(bits: int, high: int | Fraction, precision: int, finest: int) -> Element:
    return Element(bits, -high, high, precision, finest)


ELEMENTS: dict[str, Element] = {
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
    "BOOL": Element(8, 0, 1, 1, 0),
}
"""By name as in ``onnx_ir.DataType``, the smaller first, and integers before floats."""


def fits(low: int | Fraction, high: int | Fraction, precision: int, finest: int, element: str) -> bool:
    """Tell whether an element type holds numbers of this range, precision and grid."""
    known = ELEMENTS.get(element)
    if known is None:
        return False
    return known.low <= low and high <= known.high and precision <= known.precision and finest >= known.finest


def smallest_element(accepts: Callable[[str], bool]) -> str | None:
    """Return the first of the element types, smaller ones first, that is accepted."""
    return next((name for name in ELEMENTS if accepts(name)), None)
