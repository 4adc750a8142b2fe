"""What is known of the numbers in a tensor: a data type and, of integers, between which two they lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.datatypes import FLOAT32, DataType, Integer, Interval, smallest_for, smallest_for_values
from onnx_passes.datatypes.integers import BINARY
from onnx_passes.datatypes.smallest import integer_ends, range_of, smallest_for_both
from onnx_passes.graph.operators import Interface
from onnx_passes.graph.tensor_types import datatype_of


@dataclass(frozen=True)
class Fact:
    """The data type of a tensor; integers may lie in a smaller range than their type has."""

    datatype: DataType
    range: Interval | None = None

    @staticmethod
    def of(datatype: DataType) -> Fact:
        """Know no more than the type."""
        return Fact(datatype, range_of(datatype))

    @staticmethod
    def between(range_: Interval) -> Fact:
        """Know that the numbers are integers of a range."""
        return Fact(smallest_for(range_.low, range_.high), range_)

    def within(self, bounds: Interval) -> Fact:
        """Know that the numbers are integers between bounds, too; the type stays unless another one saves bits.

        Where both contradict each other, as for a type that an input was declared with wrongly, either may hold.
        """
        range_ = bounds if self.range is None else self.range & bounds or self.range | bounds
        least = smallest_for(range_.low, range_.high)
        saves = self.range is None or least.bitwidth < self.datatype.bitwidth
        return Fact(least if saves else self.datatype, range_)

    def joined(self, other: Fact) -> Fact:
        """Know what holds for the numbers of both."""
        if self.range is None or other.range is None:
            return Fact.of(smallest_for_both(self.datatype, other.datatype))
        both = self.range | other.range
        return Fact(self.datatype, both) if self.datatype == other.datatype else Fact.between(both)


UNKNOWN = Fact(FLOAT32)


def fact_of_element(dtype: ir.DataType | None) -> Fact:
    """Know no more than the element type."""
    if dtype is ir.DataType.BOOL:
        return Fact.of(BINARY)
    if dtype is None or not dtype.is_integer():
        return UNKNOWN
    return Fact.of(Integer(dtype.bitwidth, is_signed=dtype.is_signed()))


def fact_of_constant(value: ir.Value, array: np.ndarray) -> Fact:
    """Look at the numbers; a declared type that has all of them stays, unless it says nothing."""
    declared = datatype_of(value)
    ends = integer_ends(array)
    range_ = None if ends is None else Interval(*ends)
    if declared not in (None, FLOAT32) and bool(declared.allowed(array).all()):
        return Fact(declared, range_)
    return UNKNOWN if range_ is None else Fact(smallest_for_values(array), range_)


def fact_of_input(value: ir.Value) -> Fact:
    """Believe what is declared of an input; a result that no node before has computed may be anything."""
    declared = datatype_of(value) if value.producer() is None else None
    return fact_of_element(value.dtype) if declared is None else Fact.of(declared)


DatatypeRule = Callable[[ir.Node], DataType | None]
"""Names the data type of the first result; nothing where its range says all."""
DATATYPES: Interface[DatatypeRule] = Interface(
    "datatype", "the name of the data type of its result", "onnx_passes.passes.datatypes.names"
)
