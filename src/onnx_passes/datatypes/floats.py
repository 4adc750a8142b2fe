"""Floats: those of ONNX, and those with any number of bits for exponent and mantissa."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from onnx_passes.core.errors import UsageError
from onnx_passes.datatypes.arrays import ELEMENTS, between, scaled, whole
from onnx_passes.datatypes.base import EXACT_IN_DOUBLE, Array, DataType

_MOST_EXPONENT_BITS = 11
_MOST_MANTISSA_BITS = 52
_MOST_BIAS = 9999


class Float(DataType):
    """``FLOAT16``, ``FLOAT32``, ``BFLOAT16`` and ``FLOAT64``, with infinities and NaN; QONNX knows the first two.

    ``FLOAT32`` is also what QONNX says where nothing is known, so ``FLOAT32`` and ``FLOAT64`` allow every number.
    """

    def __init__(self, name: str, element: str) -> None:
        known = ELEMENTS[element]
        super().__init__(name, known.bits, known.low, known.high, None, known.precision, known.finest)

    def _has(self, known: Array) -> Array:
        if self.bitwidth >= 32:
            return np.ones(known.shape, dtype=bool)
        exact = _multiples(known, self.precision - 1, self.finest + self.precision - 1)
        return (between(known, self.min or 0, self.max or 0) & exact) | ~np.isfinite(known)


class MiniFloat(DataType):
    """``FLOAT<exponent bits,mantissa bits,bias>`` with a sign, with subnormal numbers, without infinities and NaN."""

    def __init__(self, exponent_bits: int, mantissa_bits: int, bias: int) -> None:
        if not (1 <= exponent_bits <= _MOST_EXPONENT_BITS and 0 <= mantissa_bits <= _MOST_MANTISSA_BITS):
            raise UsageError(
                f"a float cannot have {exponent_bits} bits of exponent and {mantissa_bits} of mantissa",
                hint=f"give 1 to {_MOST_EXPONENT_BITS} and 0 to {_MOST_MANTISSA_BITS}",
            )
        if abs(bias) > _MOST_BIAS:
            raise UsageError(f"the bias {bias} of an exponent is beyond all floats", hint="leave it out")
        bits = 1 + exponent_bits + mantissa_bits
        # All bits are set, as none stand for infinities and NaN; both zeros are one number.
        exponent = (1 << exponent_bits) - 1 - bias - mantissa_bits
        high = ((1 << (mantissa_bits + 1)) - 1) * Fraction(2) ** exponent
        name = f"FLOAT<{exponent_bits},{mantissa_bits},{bias}>"
        super().__init__(name, bits, -high, high, (1 << bits) - 1, mantissa_bits + 1, 1 - bias - mantissa_bits)

    def _has(self, known: Array) -> Array:
        exact = _multiples(known, self.precision - 1, self.finest + self.precision - 1)
        return between(known, self.min or 0, self.max or 0) & exact


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
