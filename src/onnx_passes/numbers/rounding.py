"""Rounding modes of quantizers: where the numbers of a level begin, and rounding of arrays of floats."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np


class Edge(NamedTuple):
    """Where a level begins: at a number, which belongs to the level if the edge is ``closed``."""

    at: Fraction
    closed: bool

    def is_passed(self, number: Any) -> bool:
        """Tell whether a number is on the level, or above it."""
        return bool(number >= self.at if self.closed else number > self.at)


def edge(mode: str, level: int) -> Edge:
    """Return where real numbers begin that are rounded to an integer or to more."""
    half, below = Fraction(2 * level - 1, 2), Fraction(level - 1)
    match mode:
        case "CEIL":
            return Edge(below, closed=False)
        case "FLOOR":
            return Edge(Fraction(level), closed=True)
        case "UP":
            return Edge(below, closed=False) if level > 0 else Edge(Fraction(level), closed=True)
        case "DOWN" | "ROUND_TO_ZERO":
            return Edge(Fraction(level), closed=True) if level > 0 else Edge(below, closed=False)
        case "HALF_UP":
            return Edge(half, closed=level > 0)
        case "HALF_DOWN":
            return Edge(half, closed=level <= 0)
        case _:
            return Edge(half, closed=level % 2 == 0)


def round_numpy(mode: str, x: np.ndarray) -> np.ndarray:
    """Round; infinities and NaN stay.

    UP, HALF_UP and HALF_DOWN multiply the rounded size by the sign, as QONNX does: this decides on the sign of zero,
    and that a number next to a half, too near for the sum or difference to tell, counts as a half.
    """
    if mode == "CEIL":
        return np.ceil(x)
    if mode == "FLOOR":
        return np.floor(x)
    if mode in ("DOWN", "ROUND_TO_ZERO"):
        return np.trunc(x)
    half = x.dtype.type(0.5)
    # The sign of NaN and the product of an infinity and zero are NaN, which is meant.
    with np.errstate(invalid="ignore"):
        if mode == "UP":
            return np.sign(x) * np.ceil(np.abs(x))
        if mode == "HALF_UP":
            return np.sign(x) * np.floor(np.abs(x) + half)
        if mode == "HALF_DOWN":
            return np.sign(x) * np.ceil(np.abs(x) - half)
    return np.rint(x)
