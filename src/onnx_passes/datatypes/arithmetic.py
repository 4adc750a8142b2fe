"""Which data type the results of arithmetic have: all possible results, and no bit more than they need."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from onnx_passes.datatypes.base import DataType
from onnx_passes.datatypes.floats import FLOAT32
from onnx_passes.datatypes.integers import BIPOLAR, IntegerType
from onnx_passes.datatypes.ranges import Interval
from onnx_passes.datatypes.scaled import FixedPoint
from onnx_passes.datatypes.smallest import smallest_for


class _Grid(NamedTuple):
    """Integers of a range, divided by two to the power of ``fraction_bits``."""

    range: Interval
    fraction_bits: int

    def finer(self, fraction_bits: int) -> Interval:
        return self.range.shifted(fraction_bits - self.fraction_bits)


def add(a: DataType, b: DataType) -> DataType:
    """Return the type of sums."""
    return _aligned(a, b, Interval.__add__)


def sub(a: DataType, b: DataType) -> DataType:
    """Return the type of differences."""
    return _aligned(a, b, Interval.__sub__)


def mul(a: DataType, b: DataType) -> DataType:
    """Return the type of products."""
    return dot(a, b, 1)


def dot(a: DataType, b: DataType, terms: int) -> DataType:
    """Return the type of sums of as many products."""
    p, q = _grid(a), _grid(b)
    if p is None or q is None:
        return FLOAT32
    if terms == 1 and a == b == BIPOLAR:
        return BIPOLAR
    return _type(p.range.dot(q.range, terms), p.fraction_bits + q.fraction_bits)


def neg(a: DataType) -> DataType:
    """Return the type of opposites."""
    return scale(a, -1)


def scale(a: DataType, factor: int) -> DataType:
    """Return the type of products with one number."""
    grid = _grid(a)
    if grid is None:
        return FLOAT32
    if a == BIPOLAR and abs(factor) == 1:
        return BIPOLAR
    return _type(grid.range.times(factor), grid.fraction_bits)


def shift(a: DataType, bits: int) -> DataType:
    """Return the type of shifts to the left or, by a negative number of bits, to the right, rounding down.

    A fixed-point number keeps its bits behind the point.
    """
    grid = _grid(a)
    if grid is None:
        return FLOAT32
    if a == BIPOLAR and bits == 0:
        return BIPOLAR
    return _type(grid.range.shifted(bits), grid.fraction_bits)


def join(a: DataType, b: DataType) -> DataType:
    """Return the smallest type with the values of both."""
    return a if a == b else _aligned(a, b, Interval.__or__)


def range_of(datatype: DataType) -> Interval | None:
    """Return the integers between the ends of an integer type; nothing for other types."""
    return Interval(datatype.min, datatype.max) if isinstance(datatype, IntegerType) else None


def _aligned(a: DataType, b: DataType, operation: Callable[[Interval, Interval], Interval]) -> DataType:
    p, q = _grid(a), _grid(b)
    if p is None or q is None:
        return FLOAT32
    fraction_bits = max(p.fraction_bits, q.fraction_bits)
    return _type(operation(p.finer(fraction_bits), q.finer(fraction_bits)), fraction_bits)


def _grid(datatype: DataType) -> _Grid | None:
    if isinstance(datatype, FixedPoint):
        ends = 1 << (datatype.bits - 1)
        return _Grid(Interval(-ends, ends - 1), datatype.fraction_bits)
    known = range_of(datatype)
    return None if known is None else _Grid(known, 0)


def _type(range_: Interval, fraction_bits: int) -> DataType:
    if fraction_bits == 0:
        return smallest_for(range_.low, range_.high)
    bits = max(-range_.low - 1, range_.high, 0).bit_length() + 1
    return FixedPoint(bits, bits - fraction_bits)
