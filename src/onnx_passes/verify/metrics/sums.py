"""Sums of floats that are exact, so that nothing depends on the order or on the parts in which they were made."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_BITS = 53
_HALF = 27
_LEAST = -1126
"""The exponent of the unit: the last bit of the smallest number, whose 53 bits end at 2**-1126."""
_MOST_AT_ONCE = 10_000_000
"""Halves of so many significands add up without rounding."""


@dataclass
class ExactSum:
    """The sum of numbers, as one integer of a unit that divides all of them; infinities and NaN are counted apart."""

    units: int = 0
    above: int = 0
    below: int = 0
    undefined: int = 0

    def add(self, numbers: NDArray[np.float64]) -> None:
        """Add all numbers of an array, of any shape."""
        flat = numbers.reshape(-1)
        flat = flat[flat != 0]
        finite = np.isfinite(flat)
        if not finite.all():
            self.above += int((flat == np.inf).sum())
            self.below += int((flat == -np.inf).sum())
            self.undefined += int(np.isnan(flat).sum())
            flat = flat[finite]
        for start in range(0, flat.size, _MOST_AT_ONCE):
            self._add_finite(flat[start : start + _MOST_AT_ONCE])

    def _add_finite(self, flat: NDArray[np.float64]) -> None:
        fractions, exponents = np.frexp(flat)
        significands = np.ldexp(fractions, _BITS).astype(np.int64)
        least = int(exponents.min())
        places = exponents - least
        high = np.bincount(places, weights=significands >> _HALF)
        low = np.bincount(places, weights=significands & (2**_HALF - 1))
        total = 0
        for place in np.flatnonzero((high != 0) | (low != 0)).tolist():
            total += ((int(high[place]) << _HALF) + int(low[place])) << place
        self.units += total << (least - _BITS - _LEAST)

    def merge(self, other: ExactSum) -> None:
        """Add what another sum holds."""
        self.units += other.units
        self.above += other.above
        self.below += other.below
        self.undefined += other.undefined

    @property
    def value(self) -> float:
        """Return the sum, rounded once."""
        return self.over(1)

    def over(self, count: int) -> float:
        """Return the sum divided by a number, rounded once; NaN by nothing."""
        if not count or self.undefined or (self.above and self.below):
            return math.nan
        if self.above or self.below:
            return math.inf if self.above else -math.inf
        try:
            return self.units / (count << -_LEAST)
        except OverflowError:
            return math.inf if self.units > 0 else -math.inf
