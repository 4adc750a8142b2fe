"""Floats: those of ONNX, and those with any number of bits for exponent and mantissa."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from onnx_passes.core.errors import UsageError
from onnx_passes.datatypes.arrays import between, numbers, scaled, whole
from onnx_passes.datatypes.base import Array, DataType
from onnx_passes.datatypes.elements import ELEMENTS
from onnx_passes.datatypes.limits import EXACT_IN_DOUBLE

_MOST_EXPONENT_BITS = 11
_MOST_MANTISSA_BITS = 52
_MOST_BIAS = 9999


@dataclass(frozen=True)
class Float(DataType):
    """``FLOAT16``, ``FLOAT32``, ``BFLOAT16`` and ``FLOAT64``, with infinities and NaN; QONNX knows the first two.

    ``FLOAT32`` is also what QONNX says where nothing is known, so ``FLOAT32`` and ``FLOAT64`` allow every number.
    """

    name: str
    element: str

    @property
    def bitwidth(self) -> int:
        """Return the bits of the element type."""
        return ELEMENTS[self.element].bits

    @property
    def min(self) -> int:
        """Return the smallest finite number."""
        return int(ELEMENTS[self.element].low)

    @property
    def max(self) -> int:
        """Return the largest finite number."""
        return int(ELEMENTS[self.element].high)

    @property
    def count(self) -> None:
        """Say that nobody counts them."""
        return

    @property
    def precision(self) -> int:
        """Return the bits of the mantissa with the leading one."""
        return ELEMENTS[self.element].precision

    @property
    def finest(self) -> int:
        """Return the exponent of the smallest positive number."""
        return ELEMENTS[self.element].finest

    def allowed(self, array: Array) -> Array:
        """Tell which elements this precision holds exactly."""
        known = numbers(array)
        if known is None:
            return np.zeros(array.shape, dtype=bool)
        if self.bitwidth >= 32:
            return np.ones(array.shape, dtype=bool)
        exact = _multiples(known, self.precision - 1, self.finest + self.precision - 1)
        return (between(known, self.min, self.max) & exact) | ~np.isfinite(known)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class MiniFloat(DataType):
    """``FLOAT<exponent bits,mantissa bits,bias>`` with a sign, with subnormal numbers, without infinities and NaN."""

    exponent_bits: int
    mantissa_bits: int
    bias: int

    def __post_init__(self) -> None:
        """Refuse what is no float, and what not even a double could hold."""
        if not (1 <= self.exponent_bits <= _MOST_EXPONENT_BITS and 0 <= self.mantissa_bits <= _MOST_MANTISSA_BITS):
            raise UsageError(
                f"a float cannot have {self.exponent_bits} bits of exponent and {self.mantissa_bits} of mantissa",
                hint=f"give 1 to {_MOST_EXPONENT_BITS} and 0 to {_MOST_MANTISSA_BITS}",
            )
        if abs(self.bias) > _MOST_BIAS:
            raise UsageError(f"the bias {self.bias} of an exponent is beyond all floats", hint="leave it out")

    @property
    def bitwidth(self) -> int:
        """Return the bits of sign, exponent and mantissa."""
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def min(self) -> Fraction:
        """Return the largest number with the other sign."""
        return -self.max

    @property
    def max(self) -> Fraction:
        """Return the largest number: all bits set, as none stand for infinities and NaN."""
        exponent = (1 << self.exponent_bits) - 1 - self.bias - self.mantissa_bits
        return ((1 << (self.mantissa_bits + 1)) - 1) * Fraction(2) ** exponent

    @property
    def count(self) -> int:
        """Return how many numbers there are, both zeros being one."""
        return (1 << self.bitwidth) - 1

    @property
    def precision(self) -> int:
        """Return the bits of the mantissa with the leading one."""
        return self.mantissa_bits + 1

    @property
    def finest(self) -> int:
        """Return the exponent of the smallest positive number."""
        return 1 - self.bias - self.mantissa_bits

    def allowed(self, array: Array) -> Array:
        """Tell which elements have no more bits than the mantissa, and lie in range."""
        known = numbers(array)
        if known is None:
            return np.zeros(array.shape, dtype=bool)
        return between(known, self.min, self.max) & _multiples(known, self.mantissa_bits, 1 - self.bias)

    def __str__(self) -> str:
        return f"FLOAT<{self.exponent_bits},{self.mantissa_bits},{self.bias}>"


def _multiples(array: Array, mantissa_bits: int, least_exponent: int) -> Array:
    """Tell which elements are multiples of the last bit of a mantissa, below the least exponent a fixed one."""
    known, exact = array, np.True_
    if array.dtype.kind in "iu":
        known, exact = array.astype(np.float64), _at_most_53_bits(array)
    _, exponents = np.frexp(np.where(np.isfinite(known), known, 0))
    units = scaled(known, mantissa_bits - np.maximum(exponents - 1, least_exponent))
    # What is not zero, but becomes so, is finer than any bit here.
    return exact & whole(units) & ((units != 0) | (known == 0))


def _at_most_53_bits(array: Array) -> Array:
    """Tell which integers a double holds: no other has as few bits as a mantissa."""
    if array.dtype.itemsize < 8:
        return np.ones(array.shape, dtype=bool)
    # The opposite of the smallest integer is itself, and right again once it has no sign.
    magnitude = np.abs(array).astype(np.uint64)
    last_bit = np.maximum(magnitude & (~magnitude + np.uint64(1)), np.uint64(1))
    return magnitude // last_bit < np.uint64(EXACT_IN_DOUBLE)


FLOAT16 = Float("FLOAT16", "FLOAT16")
FLOAT32 = Float("FLOAT32", "FLOAT")
FLOAT64 = Float("FLOAT64", "DOUBLE")
BFLOAT16 = Float("BFLOAT16", "BFLOAT16")
