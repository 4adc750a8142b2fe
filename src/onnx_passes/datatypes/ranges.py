"""Ranges of integers, exact whatever their size, and the smallest data type for given numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnx_passes.core.errors import UsageError
from onnx_passes.datatypes.arrays import numbers, whole
from onnx_passes.datatypes.base import Array, DataType
from onnx_passes.datatypes.floats import FLOAT32
from onnx_passes.datatypes.integers import BIPOLAR, TERNARY, FixedPoint, Integer, IntegerType


@dataclass(frozen=True)
class Interval:
    """All integers from ``low`` to ``high``."""

    low: int
    high: int

    def __post_init__(self) -> None:
        """Refuse ranges without an integer."""
        if self.low > self.high:
            raise UsageError(f"no integer lies between {self.low} and {self.high}", hint="give the smaller one first")

    def __or__(self, other: Interval) -> Interval:
        """Join: the smallest range with the integers of both."""
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def __and__(self, other: Interval) -> Interval | None:
        """Meet: the integers that are in both, if there are any."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Interval(low, high) if low <= high else None

    def __contains__(self, other: Interval | int) -> bool:
        if isinstance(other, int):
            return self.low <= other <= self.high
        return self.low <= other.low and other.high <= self.high

    def __str__(self) -> str:
        return f"[{self.low}, {self.high}]"


_GLANCE = 256
"""Among so many elements of weights that are no integers one is found that is none."""


def smallest_for(low: int, high: int, *, narrow: bool = False, bipolar: bool = False) -> IntegerType:
    """Return the integer type of fewest bits with all integers from ``low`` to ``high``, unsigned where possible.

    ``narrow`` leaves the most negative value of a type unused, so that the opposite of each value is one, too;
    ``bipolar`` says that between -1 and 1 there is no 0.
    """
    if low > high:
        raise UsageError(f"no integer lies between {low} and {high}", hint="give the smaller one first")
    if low >= 0:
        return Integer(max(high.bit_length(), 1), is_signed=False)
    if (low, high) == (-1, -1) or (bipolar and (low, high) == (-1, 1)):
        return BIPOLAR
    if (low, high) == (-1, 1) or (narrow and low == -1 and high <= 1):
        return TERNARY
    furthest = max(-low if narrow else -low - 1, high)
    return Integer(furthest.bit_length() + 1, is_signed=True)


def smallest_for_values(array: Array) -> DataType:
    """Return the smallest type with all elements of an array: ``FLOAT32`` unless all of them are integers."""
    ends = integer_ends(array)
    if ends is None:
        return FLOAT32
    return smallest_for(*ends, bipolar=ends == (-1, 1) and bool((array != 0).all()))


def smallest_for_both(a: DataType, b: DataType) -> DataType:
    """Return the smallest type with the values of both: ``FLOAT32`` unless all are integers, or have fixed points."""
    if a == b:
        return a
    known = [datatype for datatype in (a, b) if isinstance(datatype, IntegerType | FixedPoint)]
    if len(known) < 2:
        return FLOAT32
    fraction_bits = -min(datatype.finest for datatype in known)
    low = int(min(datatype.min for datatype in known) * 2**fraction_bits)
    high = int(max(datatype.max for datatype in known) * 2**fraction_bits)
    if fraction_bits == 0:
        return smallest_for(low, high)
    bits = max(-low - 1, high, 0).bit_length() + 1
    return FixedPoint(bits, bits - fraction_bits)


def range_of(datatype: DataType) -> Interval | None:
    """Return the integers between the ends of an integer type; nothing for other types."""
    return Interval(datatype.min, datatype.max) if isinstance(datatype, IntegerType) else None


def integer_ends(array: Array) -> tuple[int, int] | None:
    """Return the smallest and the largest element as exact integers; nothing unless all elements are integers."""
    known = numbers(array)
    if known is None:
        return None
    if known.size == 0:
        return 0, 0
    if known.dtype.kind == "f" and not bool(whole(known.reshape(-1)[:_GLANCE]).all()):
        return None
    low, high = known.min(), known.max()
    if known.dtype.kind == "f" and not (np.isfinite(low) and np.isfinite(high) and bool(whole(known).all())):
        return None
    return int(low), int(high)
