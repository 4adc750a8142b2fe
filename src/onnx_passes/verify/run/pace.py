"""How many samples a model can afford: what the first run took tells what others will take."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

Sizes = dict[str, np.ndarray]


class Pace:
    """Lets runs on samples go on after the first while they take no more seconds of processor time than ``limit``."""

    def __init__(self, limit: float = math.inf) -> None:
        self._limit = limit
        self._first: tuple[float, int] | None = None
        self._spent = 0.0
        self._left_out: Sequence[Sizes] = ()

    def allows(self, sample: Sizes, rest: Sequence[Sizes]) -> bool:
        """Tell whether a sample may run; if not, it and the ``rest`` are left out."""
        if self._first is None or self.has_room(self._foreseen(sample)):
            return True
        self._left_out = (sample, *rest)
        return False

    def has_room(self, seconds: float) -> bool:
        """Tell whether one more run may take so long."""
        return self._spent + seconds <= self._limit

    def took(self, sample: Sizes, seconds: float) -> None:
        """Take in what a run took."""
        if self._first is None:
            self._first = seconds, _elements(sample)
        else:
            self._spent += seconds

    @property
    def shortage(self) -> tuple[float, float] | None:
        """Return what the first run took, and how many times the limit all would take; None if all ran."""
        if self._first is None or not self._left_out:
            return None
        wanted = self._spent + sum(map(self._foreseen, self._left_out))
        return self._first[0], wanted / self._limit

    def _foreseen(self, sample: Sizes) -> float:
        assert self._first is not None
        seconds, elements = self._first
        return seconds * _elements(sample) / elements


def _elements(sample: Sizes) -> int:
    return max(1, sum(array.size for array in sample.values()))
