"""Integers times a scale: a known power of two, or one that the type does not know."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from onnx_passes.core.errors import UsageError
from onnx_passes.datatypes.arrays import between, scaled, whole
from onnx_passes.datatypes.base import Array, DataType
from onnx_passes.datatypes.integers import MOST_BITS


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
