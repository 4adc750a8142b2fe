"""Integers times a scale: a known power of two, or one that the type does not know."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from onnx_passes.core.errors import UsageError
from onnx_passes.datatypes.arrays import between, numbers, scaled, whole
from onnx_passes.datatypes.base import Array, DataType
from onnx_passes.datatypes.integers import MOST_BITS


@dataclass(frozen=True)
class FixedPoint(DataType):
    """``FIXED<bits,integer bits>``: signed integers of ``bits`` bits, divided by two to the power of the rest."""

    bits: int
    integer_bits: int
    is_fixed_point = True

    def __post_init__(self) -> None:
        """Refuse what has no bit behind the point: that is an integer, and QONNX refuses it, too."""
        if not 1 <= self.bits <= MOST_BITS or not -MOST_BITS <= self.integer_bits < self.bits:
            raise UsageError(
                f"a fixed-point number cannot have {self.bits} bits, {self.integer_bits} of them before the point",
                hint=f"give 1 to {MOST_BITS} bits, and fewer of them before the point",
            )

    @property
    def fraction_bits(self) -> int:
        """Return how many bits stand behind the point."""
        return self.bits - self.integer_bits

    @property
    def bitwidth(self) -> int:
        """Return the bits, the sign included."""
        return self.bits

    @property
    def min(self) -> Fraction:
        """Return the smallest number."""
        return Fraction(-(1 << (self.bits - 1)), 1 << self.fraction_bits)

    @property
    def max(self) -> Fraction:
        """Return the largest number."""
        return Fraction((1 << (self.bits - 1)) - 1, 1 << self.fraction_bits)

    @property
    def count(self) -> int:
        """Return how many numbers there are."""
        return 1 << self.bits

    @property
    def precision(self) -> int:
        """Return the bits without the sign."""
        return max(self.bits - 1, 1)

    @property
    def finest(self) -> int:
        """Return the exponent of the last bit."""
        return -self.fraction_bits

    def allowed(self, array: Array) -> Array:
        """Tell which elements are multiples of the last bit between the ends."""
        known = numbers(array)
        if known is None:
            return np.zeros(array.shape, dtype=bool)
        inside = between(known, self.min, self.max)
        return inside if known.dtype.kind in "iu" else inside & whole(scaled(known, self.fraction_bits))

    def __str__(self) -> str:
        return f"FIXED<{self.bits},{self.integer_bits}>"


@dataclass(frozen=True)
class ScaledInteger(DataType):
    """``SCALEDINT<bits>``: integers times a scale that the type does not know, so any number may be one."""

    bits: int

    def __post_init__(self) -> None:
        """Refuse what has no values, or too many to count."""
        if not 1 <= self.bits <= MOST_BITS:
            raise UsageError(f"a scaled integer cannot have {self.bits} bits", hint=f"give 1 to {MOST_BITS}")

    @property
    def bitwidth(self) -> int:
        """Return the bits of the integer."""
        return self.bits

    @property
    def min(self) -> None:
        """Say that the scale decides."""
        return

    @property
    def max(self) -> None:
        """Say that the scale decides."""
        return

    @property
    def count(self) -> None:
        """Say that QONNX uses it for signed and unsigned integers alike."""
        return

    @property
    def precision(self) -> int:
        """Return the bits of the integer."""
        return self.bits

    @property
    def finest(self) -> int:
        """Return 0, for want of a scale."""
        return 0

    def allowed(self, array: Array) -> Array:
        """Tell which elements are finite: with a suitable scale any of them may be right."""
        known = numbers(array)
        return np.zeros(array.shape, dtype=bool) if known is None else np.isfinite(known)

    def fits(self, element: str) -> bool:
        """Tell whether an element type is one that quantizers compute in."""
        return element in ("FLOAT", "DOUBLE")

    def __str__(self) -> str:
        return f"SCALEDINT<{self.bits}>"
