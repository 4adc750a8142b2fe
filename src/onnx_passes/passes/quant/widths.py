"""Bit widths of quantizers and their ranges of integers."""

from __future__ import annotations

from typing import NamedTuple

import onnx_ir as ir


class Width(NamedTuple):
    """Bit width, signedness and narrowness of a quantizer."""

    bits: int
    signed: bool
    narrow: bool

    @property
    def bounds(self) -> tuple[int, int]:
        """Return the least and the greatest integer."""
        if self.signed:
            return -(1 << (self.bits - 1)) + self.narrow, (1 << (self.bits - 1)) - 1
        return 0, (1 << self.bits) - 1 - self.narrow

    @property
    def is_bipolar(self) -> bool:
        """Return whether the values are -1 and 1, as for one signed bit, regardless of the bounds."""
        return self.bits == 1 and self.signed


def exact_width(low: int, high: int) -> Width | None:
    """Return the width with exactly this range; None if there is none."""
    widest = smallest_width(low, high)
    candidates = (widest, widest._replace(narrow=True))
    return next((width for width in candidates if width.bounds == (low, high)), None)


def smallest_width(low: int, high: int) -> Width:
    """Return the smallest width that contains this range."""
    if low >= 0:
        return Width(max(high.bit_length(), 1), signed=False, narrow=False)
    # One signed bit would be bipolar.
    return Width(max((~low).bit_length() + 1, max(high, 0).bit_length() + 1, 2), signed=True, narrow=False)


def type_bounds(dtype: ir.DataType) -> tuple[int, int]:
    """Return the least and the greatest number of an integer type."""
    return Width(dtype.bitwidth, dtype.is_signed(), narrow=False).bounds
