"""What every data type can say of itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Any

import numpy as np

from onnx_passes.datatypes.elements import fits, smallest_element

Number = int | Fraction
Array = np.ndarray[Any, Any]


class DataType(ABC):
    """A set of numbers, named as QONNX names it; ``str`` gives the canonical name.

    Types are equal if their canonical names are. Ends of a type are exact numbers, never rounded.
    """

    is_integer: bool = False
    """Whether all values are integers."""
    is_fixed_point: bool = False
    """Whether all values are integers times one power of two below 1."""

    @property
    @abstractmethod
    def bitwidth(self) -> int:
        """Return how many bits one value takes."""

    @property
    @abstractmethod
    def min(self) -> Number | None:
        """Return the smallest finite value, if the type alone decides about it."""

    @property
    @abstractmethod
    def max(self) -> Number | None:
        """Return the largest finite value, if the type alone decides about it."""

    @property
    @abstractmethod
    def count(self) -> int | None:
        """Return how many different numbers there are, if the type alone decides about it."""

    @property
    @abstractmethod
    def precision(self) -> int:
        """Return how many significant bits a float needs to hold every value."""

    @property
    @abstractmethod
    def finest(self) -> int:
        """Return the exponent of the power of two that all values are multiples of."""

    @property
    def signed(self) -> bool:
        """Tell whether there are negative values."""
        return self.min is None or self.min < 0

    @abstractmethod
    def allowed(self, array: Array) -> Array:
        """Tell for each element whether it is a value of this type."""

    def fits(self, element: str) -> bool:
        """Tell whether tensors of an ONNX element type (``FLOAT``, ``INT8``, …) can hold every value exactly."""
        return self.min is not None and fits(self.min, self.max or 0, self.precision, self.finest, element)

    @property
    def storage(self) -> str | None:
        """Return the smallest ONNX element type that holds every value exactly, if there is one."""
        return smallest_element(self.fits)
