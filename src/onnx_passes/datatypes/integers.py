"""Integers of any number of bits, binary and ternary sets, and integers times a scale."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from onnx_passes.core.errors import UsageError
from onnx_passes.datatypes.arrays import between, scaled, whole
from onnx_passes.datatypes.base import Array, DataType

MOST_BITS = 9999


@dataclass(frozen=True, eq=False, repr=False)
class IntegerType(DataType):
    """Integers between two ends."""

    min: int
    max: int
    count: int
    is_integer = True

    def __init__(self, name: str, bitwidth: int, low: int, high: int, count: int | None = None) -> None:
        # A power of two needs only one significant bit, so that of the most negative value counts one less.
        precision = max((-low - 1).bit_length(), high.bit_length(), 1)
        super().__init__(name, bitwidth, low, high, count or high - low + 1, precision, 0)

    def _has(self, known: Array) -> Array:
        inside = between(known, self.min, self.max)
        return inside if known.dtype.kind in "iu" else inside & whole(known)


class Integer(IntegerType):
    """``INT<n>`` in two's complement, ``UINT<n>``; ``UINT1`` is called ``BINARY``."""

    def __init__(self, bits: int, *, is_signed: bool) -> None:
        if not 1 <= bits <= MOST_BITS:
            raise UsageError(f"an integer cannot have {bits} bits", hint=f"give 1 to {MOST_BITS}")
        name = f"INT{bits}" if is_signed else "BINARY" if bits == 1 else f"UINT{bits}"
        super().__init__(name, bits, -(1 << (bits - 1)) if is_signed else 0, (1 << (bits - is_signed)) - 1)


class _Bipolar(IntegerType):
    """-1 and 1, and not 0."""

    def _has(self, known: Array) -> Array:
        return (known == 1) | (known == -1)


BINARY = Integer(1, is_signed=False)
BIPOLAR = _Bipolar("BIPOLAR", 1, -1, 1, count=2)
TERNARY = IntegerType("TERNARY", 2, -1, 1)


@dataclass(frozen=True, eq=False, repr=False)
class FixedPoint(DataType):
    """``FIXED<bits,integer bits>``: signed integers of ``bits`` bits, divided by two to the power of the rest."""

    min: Fraction
    max: Fraction
    is_fixed_point = True

    def __init__(self, bits: int, integer_bits: int) -> None:
        # What has no bit behind the point is an integer, and QONNX refuses it, too.
        if not 1 <= bits <= MOST_BITS or not -MOST_BITS <= integer_bits < bits:
            raise UsageError(
                f"a fixed-point number cannot have {bits} bits, {integer_bits} of them before the point",
                hint=f"give 1 to {MOST_BITS} bits, and fewer of them before the point",
            )
        low, unit = Fraction(-(1 << (bits - 1)), 1 << (bits - integer_bits)), Fraction(1, 1 << (bits - integer_bits))
        name = f"FIXED<{bits},{integer_bits}>"
        super().__init__(name, bits, low, -low - unit, 1 << bits, max(bits - 1, 1), integer_bits - bits)

    @property
    def fraction_bits(self) -> int:
        """Return how many bits stand behind the point."""
        return -self.finest

    def _has(self, known: Array) -> Array:
        inside = between(known, self.min, self.max)
        return inside if known.dtype.kind in "iu" else inside & whole(scaled(known, self.fraction_bits))


class ScaledInteger(DataType):
    """``SCALEDINT<bits>``: integers times a scale that the type does not know, so any number may be one.

    QONNX uses it for signed and unsigned integers alike, so that nobody can count them.
    """

    def __init__(self, bits: int) -> None:
        if not 1 <= bits <= MOST_BITS:
            raise UsageError(f"a scaled integer cannot have {bits} bits", hint=f"give 1 to {MOST_BITS}")
        super().__init__(f"SCALEDINT<{bits}>", bits, None, None, None, bits, 0)

    def _has(self, known: Array) -> Array:
        """Take what is finite: with a suitable scale any of it may be right."""
        return np.isfinite(known)

    def fits(self, element: str) -> bool:
        """Tell whether an element type is one that quantizers compute in."""
        return element in ("FLOAT", "DOUBLE")
