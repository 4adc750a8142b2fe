"""Integers of any number of bits, and the two small sets that are not all integers of their bits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnx_passes.core.errors import UsageError
from onnx_passes.datatypes.arrays import between, numbers, whole
from onnx_passes.datatypes.base import Array, DataType

MOST_BITS = 9999


class IntegerType(DataType):
    """Integers between two ends."""

    is_integer = True

    @property
    def min(self) -> int:
        """Return the smallest integer."""
        raise NotImplementedError

    @property
    def max(self) -> int:
        """Return the largest integer."""
        raise NotImplementedError

    @property
    def count(self) -> int:
        """Return how many integers there are."""
        return self.max - self.min + 1

    @property
    def precision(self) -> int:
        """Return the bits of the largest magnitude, but one: a power of two needs only one bit."""
        return max((-self.min - 1).bit_length(), self.max.bit_length(), 1)

    @property
    def finest(self) -> int:
        """Return the exponent of 1."""
        return 0

    def allowed(self, array: Array) -> Array:
        """Tell which elements are integers between the ends."""
        known = numbers(array)
        if known is None:
            return np.zeros(array.shape, dtype=bool)
        inside = between(known, self.min, self.max)
        return inside if known.dtype.kind in "iu" else inside & whole(known)


@dataclass(frozen=True)
class Integer(IntegerType):
    """``INT<n>`` in two's complement, ``UINT<n>``; ``UINT1`` is called ``BINARY``."""

    bits: int
    is_signed: bool

    def __post_init__(self) -> None:
        """Refuse what has no values, or too many to count."""
        if not 1 <= self.bits <= MOST_BITS:
            raise UsageError(f"an integer cannot have {self.bits} bits", hint=f"give 1 to {MOST_BITS}")

    @property
    def bitwidth(self) -> int:
        """Return the bits, the sign included."""
        return self.bits

    @property
    def min(self) -> int:
        """Return the smallest integer."""
        return -(1 << (self.bits - 1)) if self.is_signed else 0

    @property
    def max(self) -> int:
        """Return the largest integer."""
        return (1 << (self.bits - self.is_signed)) - 1

    def __str__(self) -> str:
        if self.is_signed:
            return f"INT{self.bits}"
        return "BINARY" if self.bits == 1 else f"UINT{self.bits}"


@dataclass(frozen=True)
class Bipolar(IntegerType):
    """-1 and 1, and not 0."""

    @property
    def bitwidth(self) -> int:
        """Return the one bit."""
        return 1

    @property
    def min(self) -> int:
        """Return -1."""
        return -1

    @property
    def max(self) -> int:
        """Return 1."""
        return 1

    @property
    def count(self) -> int:
        """Return that there are two values."""
        return 2

    def allowed(self, array: Array) -> Array:
        """Tell which elements are -1 or 1."""
        known = numbers(array)
        return np.zeros(array.shape, dtype=bool) if known is None else (known == 1) | (known == -1)

    def __str__(self) -> str:
        return "BIPOLAR"


@dataclass(frozen=True)
class Ternary(IntegerType):
    """-1, 0 and 1."""

    @property
    def bitwidth(self) -> int:
        """Return the two bits."""
        return 2

    @property
    def min(self) -> int:
        """Return -1."""
        return -1

    @property
    def max(self) -> int:
        """Return 1."""
        return 1

    def __str__(self) -> str:
        return "TERNARY"


BINARY = Integer(1, is_signed=False)
BIPOLAR = Bipolar()
TERNARY = Ternary()
