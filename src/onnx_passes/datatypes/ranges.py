"""Ranges of integers, exact whatever their size."""

from __future__ import annotations

from dataclasses import dataclass

from onnx_passes.core.errors import UsageError


@dataclass(frozen=True)
class Interval:
    """All integers from ``low`` to ``high``."""

    low: int
    high: int

    def __post_init__(self) -> None:
        """Refuse ranges without an integer."""
        if self.low > self.high:
            raise UsageError(f"no integer lies between {self.low} and {self.high}", hint="give the smaller one first")

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

    def __str__(self) -> str:
        return f"[{self.low}, {self.high}]"
