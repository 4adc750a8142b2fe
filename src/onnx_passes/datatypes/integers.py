"""Integers of any number of bits, and the two small sets that are not all integers of their bits."""

from __future__ import annotations

from dataclasses import dataclass

from onnx_passes.core.errors import UsageError
from onnx_passes.datatypes.arrays import between, whole
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
