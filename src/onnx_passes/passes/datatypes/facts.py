"""Facts about the numbers in a tensor: its data type and, for integers, their range."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.datatypes import FLOAT32, DataType, Integer, Interval, smallest_for, smallest_for_values
from onnx_passes.datatypes.types import BINARY, integer_ends, range_of, smallest_for_both
from onnx_passes.graph.operators import Interface
from onnx_passes.graph.tensor_types import datatype_of


@dataclass(frozen=True)
class Fact:
    """The data type of a tensor; integers may have a smaller range than their type."""

    datatype: DataType
    range: Interval | None = None

    @staticmethod
    def of(datatype: DataType) -> Fact:
        """Return the fact that follows from the type alone."""
        return Fact(datatype, range_of(datatype))

    @staticmethod
    def between(range_: Interval) -> Fact:
        """Return the fact that the numbers are integers within a range."""
        return Fact(smallest_for(range_.low, range_.high), range_)

    def within(self, bounds: Interval) -> Fact:
        """Intersect with bounds on the integers; keep the type unless a smaller one saves bits.

        Where the bounds contradict the fact, as for an input declared with a wrong type, either may be true.
        """
        range_ = bounds if self.range is None else self.range & bounds or self.range | bounds
        least = smallest_for(range_.low, range_.high)
        saves = self.range is None or least.bitwidth < self.datatype.bitwidth
        return Fact(least if saves else self.datatype, range_)

    def joined(self, other: Fact) -> Fact:
        """Return the join of two facts."""
        if self.range is None or other.range is None:
            return Fact.of(smallest_for_both(self.datatype, other.datatype))
        both = self.range | other.range
        return Fact(self.datatype, both) if self.datatype == other.datatype else Fact.between(both)


UNKNOWN = Fact(FLOAT32)


def fact_of_element(dtype: ir.DataType | None) -> Fact:
    """Return the fact that follows from the element type alone."""
    if dtype is ir.DataType.BOOL:
        return Fact.of(BINARY)
    if dtype is None or not dtype.is_integer():
        return UNKNOWN
    return Fact.of(Integer(dtype.bitwidth, is_signed=dtype.is_signed()))


def fact_of_constant(value: ir.Value, array: np.ndarray) -> Fact:
    """Return the fact about a constant; keep a declared type that fits, unless it is FLOAT32."""
    declared = datatype_of(value)
    ends = integer_ends(array)
    range_ = None if ends is None else Interval(*ends)
    if declared not in (None, FLOAT32) and bool(declared.allowed(array).all()):
        return Fact(declared, range_)
    return UNKNOWN if range_ is None else Fact(smallest_for_values(array), range_)


def fact_of_input(value: ir.Value) -> Fact:
    """Return the declared type of an input, else the fact of its element type."""
    declared = datatype_of(value) if value.producer() is None else None
    return fact_of_element(value.dtype) if declared is None else Fact.of(declared)


DatatypeRule = Callable[[ir.Node], DataType | None]
"""Returns the data type of the first result; None if its range determines it."""
DATATYPES: Interface[DatatypeRule] = Interface(
    "datatype", "the name of the data type of its result", "onnx_passes.passes.datatypes.names"
)
