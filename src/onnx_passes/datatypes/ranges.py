"""Ranges of integers and arithmetic on them, exact whatever their size."""

from __future__ import annotations

from dataclasses import dataclass

from onnx_passes.core.errors import UsageError


@dataclass(frozen=True)
class Interval:
    """All integers from ``low`` to ``high``; an operation gives the smallest range with every possible result."""

    low: int
    high: int

    def __post_init__(self) -> None:
        """Refuse ranges without an integer."""
        if self.low > self.high:
            raise UsageError(f"no integer lies between {self.low} and {self.high}", hint="give the smaller one first")

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Interval) -> Interval:
        return Interval(self.low - other.high, self.high - other.low)

    def __neg__(self) -> Interval:
        return Interval(-self.high, -self.low)

    def __mul__(self, other: Interval) -> Interval:
        corners = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return Interval(min(corners), max(corners))

    def __or__(self, other: Interval) -> Interval:
        """Join: the smallest range with the integers of both."""
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def __and__(self, other: Interval) -> Interval | None:
        """Meet: the integers that are in both, if there are any."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Interval(low, high) if low <= high else None

    def __contains__(self, other: Interval | int) -> bool:
        if isinstance(other, int):
            return self.low <= other <= self.high
        return self.low <= other.low and other.high <= self.high

    def times(self, factor: int) -> Interval:
        """Multiply by a number."""
        return self * Interval(factor, factor)

    def shifted(self, bits: int) -> Interval:
        """Shift to the left or, by a negative number of bits, to the right, rounding down."""
        if bits >= 0:
            return Interval(self.low << bits, self.high << bits)
        return Interval(self.low >> -bits, self.high >> -bits)

    def dot(self, other: Interval, terms: int) -> Interval:
        """Multiply ``terms`` pairs and add the products up."""
        return (self * other).times(terms)

    def clamped(self, low: int | None, high: int | None) -> Interval:
        """Clamp as ``min(max(x, low), high)`` does."""
        ends = [self.low, self.high]
        if low is not None:
            ends = [max(end, low) for end in ends]
        if high is not None:
            ends = [min(end, high) for end in ends]
        return Interval(*ends)

    def __str__(self) -> str:
        return f"[{self.low}, {self.high}]"


ZERO = Interval(0, 0)
