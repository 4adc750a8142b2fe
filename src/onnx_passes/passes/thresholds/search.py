"""Search thresholds by evaluating the function itself: exact for any computation and rounding."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

_AROUND = 2**10
_MOST_POINTS = 2**20

Function = Callable[[np.ndarray], np.ndarray]
"""Maps points of shape ``[channels, n]`` to integer levels of the same shape."""


@dataclass(frozen=True)
class SearchDomain(ABC):
    """Sorted points, numbered by integers from ``low`` to ``high`` for each channel."""

    low: np.ndarray
    high: np.ndarray

    @abstractmethod
    def points(self, numbers: np.ndarray) -> np.ndarray:
        """Return the points with the given numbers."""

    def mirrored(self, channels: np.ndarray) -> Self:
        """Return the domain with some channels negated: the point of ``-n`` is the negative of that of ``n``."""
        low, high = np.where(channels, -self.high, self.low), np.where(channels, -self.low, self.high)
        return replace(self, low=low, high=high)


@dataclass(frozen=True)
class Integers(SearchDomain):
    """The integers, numbered by themselves."""

    def points(self, numbers: np.ndarray) -> np.ndarray:
        """Return the integers as floats."""
        return numbers.astype(np.float32)


@dataclass(frozen=True)
class FloatPoints(SearchDomain):
    """The numbers of float32, with a single zero."""

    @staticmethod
    def all(channels: int) -> FloatPoints:
        """Return the domain of all finite floats, for each channel."""
        largest = np.array(np.finfo(np.float32).max).view(np.int32).astype(np.int64)
        return FloatPoints(np.full(channels, -largest), np.full(channels, largest))

    def points(self, numbers: np.ndarray) -> np.ndarray:
        """Return the floats with the given positions in the order of all floats."""
        size = np.abs(numbers).astype(np.int32).view(np.float32)
        return np.where(numbers < 0, -size, size).astype(np.float32)


def bisect(function: Function, domain: SearchDomain, levels: np.ndarray) -> np.ndarray:
    """Return the number of the first point at which an increasing function reaches each level, for each channel.

    If a level is never reached, the number is that after the last point, ``domain.high + 1``.
    """
    shape = (domain.low.size, levels.size)
    low = np.broadcast_to(domain.low[:, None], shape).astype(np.int64)
    high = np.broadcast_to(domain.high[:, None] + 1, shape).astype(np.int64)
    last = np.broadcast_to(domain.high[:, None], shape)
    while (open_ := low < high).any():
        middle = (low + high) >> 1
        reached = function(domain.points(np.minimum(middle, last))) >= levels
        high = np.where(open_ & reached, middle, high)
        low = np.where(open_ & ~reached, middle + 1, low)
    return high


def agrees_nearby(function: Function, domain: SearchDomain, levels: np.ndarray, found: np.ndarray) -> bool:
    """Return whether the function increases around the points found by bisection, as assumed."""
    around = max(1, min(_AROUND, _MOST_POINTS // (2 * found.size)))
    last = domain.high[:, None, None]
    numbers = found[:, :, None] + np.arange(-around, around)
    inside = (numbers >= domain.low[:, None, None]) & (numbers <= last)
    points = domain.points(np.clip(numbers, domain.low[:, None, None], last))
    reached = function(points.reshape(len(points), -1)).reshape(points.shape) >= levels[None, :, None]
    return bool((~inside | (reached == (numbers >= found[:, :, None]))).all())


@dataclass(frozen=True)
class Jumps:
    """Changes of a function for each channel: by ``jump`` at ``at``; padded with zero jumps at the end."""

    start: np.ndarray
    at: np.ndarray
    jump: np.ndarray


def enumerate_steps(function: Function, domain: SearchDomain) -> Jumps:
    """Return all changes of any function by evaluating every point, for domains of moderate size."""
    count = int((domain.high - domain.low).max()) + 1
    numbers = np.minimum(domain.low[:, None] + np.arange(count), domain.high[:, None])
    levels = function(domain.points(numbers))
    change = np.diff(levels, axis=1)
    most = max(1, int((change != 0).sum(axis=1).max(initial=0)))
    at = np.broadcast_to(domain.high[:, None] + 1, (len(numbers), most)).copy()
    jump = np.zeros((len(numbers), most), levels.dtype)
    for channel, row in enumerate(change):
        places = np.flatnonzero(row)
        at[channel, : places.size] = numbers[channel, places + 1]
        jump[channel, : places.size] = row[places]
    return Jumps(levels[:, 0], at, jump)
