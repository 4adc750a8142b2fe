"""Base of all data types, and the largest integers that floats hold without gaps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from onnx_passes.datatypes.arrays import fits, numbers, smallest_element

Number = int | Fraction
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False, repr=False)
class DataType(ABC):
    """A set of numbers, named as QONNX names it; types are equal if their names are.

    One value takes ``bitwidth`` bits. ``min`` and ``max`` are the ends of the finite values, exact and never rounded,
    ``count`` is how many different numbers there are: nothing where the type alone does not decide. A float needs
    ``precision`` significant bits to hold every value, and all are multiples of two to the power of ``finest``.
    """

    name: str
    bitwidth: int
    min: Number | None
    max: Number | None
    count: int | None
    precision: int
    finest: int
    is_integer: ClassVar[bool] = False
    """Whether all values are integers."""
    is_fixed_point: ClassVar[bool] = False
    """Whether all values are integers times one power of two below 1."""

    @property
    def signed(self) -> bool:
        """Return whether there are negative values."""
        return self.min is None or self.min < 0

    def allowed(self, array: Array) -> Array:
        """Return for each element whether it is a value of this type; texts and complex numbers never are."""
        known = numbers(array)
        return np.zeros(array.shape, dtype=bool) if known is None else self._has(known)

    @abstractmethod
    def _has(self, known: Array) -> Array:
        """Return for each of some numbers whether it is a value of this type."""

    def fits(self, element: str) -> bool:
        """Return whether tensors of an ONNX element type (``FLOAT``, ``INT8``, …) can hold every value exactly."""
        return self.min is not None and fits(self.min, self.max or 0, self.precision, self.finest, element)

    @property
    def storage(self) -> str | None:
        """Return the smallest ONNX element type that holds every value exactly, if there is one."""
        return smallest_element(self.fits)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DataType) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


EXACT_IN_FLOAT = 2**24
"""Up to here float32 has all integers, and sums of them are those of integers."""
EXACT_IN_DOUBLE = 2**53
"""Up to here double has all integers."""
