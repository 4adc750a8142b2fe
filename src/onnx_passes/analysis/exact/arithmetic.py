"""Two ways to compute with real numbers: exactly, and with intervals of doubles, which are fast and tell most things.

What operators compute element by element is written once (``functions.py``), for either.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, Generic, TypeVar, cast

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.exact.constants import meaning
from onnx_passes.analysis.exact.enclosures import Real, growing
from onnx_passes.analysis.exact.reals import Reals
from onnx_passes.analysis.exact.surd import Number
from onnx_passes.ops.rounding import edge, round_numpy

T = TypeVar("T")
_UNITS = 2.0**-49
"""Functions of numpy err by no more, in proportion."""
AT_ZERO: dict[str, Fraction | None] = {
    "asinh": Fraction(0),
    "atan": Fraction(0),
    "erf": Fraction(0),
    "exp": Fraction(1),
    "sigmoid": Fraction(1, 2),
    "sinh": Fraction(0),
    "softplus": None,
    "tanh": Fraction(0),
}
"""Functions that grow, with what they are at zero, where that is a rational number."""


class UnknownOperatorError(Exception):
    """An operator, or a number, that is not computed here."""


class Arithmetic(ABC, Generic[T]):
    """Arrays of numbers that are added, multiplied and compared; what operators of Python do not say."""

    @abstractmethod
    def of(self, numbers: Reals) -> T:
        """Return numbers that are broadcast to a tensor."""

    def numbers(self, value: ir.Value) -> T:
        """Return what a constant stands for. Raises UnknownOperatorError."""
        return self.of(known(value))

    @abstractmethod
    def number(self, number: Number) -> T:
        """Return a number."""

    @abstractmethod
    def greater(self, a: T, b: T) -> T:
        """Return the greater of numbers."""

    @abstractmethod
    def growing(self, name: str, x: T) -> T:
        """Return the values of a function that grows."""

    @abstractmethod
    def rounded(self, mode: str, x: T) -> T:
        """Round to integers."""

    @abstractmethod
    def reached(self, x: T, thresholds: T, weights: T) -> T:
        """Return weights where thresholds are reached, and else zeros."""


class ExactArithmetic(Arithmetic[np.ndarray]):
    """Computes with arrays of objects, which are exact numbers: of whole tensors, or of what is at one index."""

    def __init__(self, index: Sequence[int] | None = None) -> None:
        self._index = index

    def of(self, numbers: Reals) -> np.ndarray:
        """Return numbers that are broadcast to a tensor, or the one that is to the index."""
        if self._index is not None:
            return filled((1,), numbers.at(self._index))
        found = np.empty(numbers.size, object)
        found[:] = numbers.list()
        return found.reshape(numbers.shape)

    def number(self, number: Number) -> np.ndarray:
        """Return a number."""
        return filled((), number)

    def greater(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return the greater of numbers."""
        return each(max, a, b)

    def growing(self, name: str, x: np.ndarray) -> np.ndarray:
        """Return the values of a function that grows."""
        return each(partial(growing, name, AT_ZERO[name]), x)

    def rounded(self, mode: str, x: np.ndarray) -> np.ndarray:
        """Round to integers."""
        return each(partial(rounded, mode), x)

    def reached(self, x: np.ndarray, thresholds: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return weights where thresholds are reached, and else zeros."""
        return each(_where_reached, x, thresholds, weights)


def _where_reached(number: Any, limit: Any, weight: Any) -> Any:
    return weight if number >= limit else Fraction()


def rounded(mode: str, number: Real) -> Fraction:
    """Return the integer that a number is rounded to."""
    level = math.floor(number) + 1
    while not edge(mode, level).is_passed(number):
        level -= 1
    return Fraction(level)


def each(function: Callable[..., Any], *arrays: np.ndarray) -> np.ndarray:
    """Apply a function element by element."""
    found: Any = np.frompyfunc(function, len(arrays), 1)(*arrays)
    return cast("np.ndarray", found) if isinstance(found, np.ndarray) else filled((), found)


def filled(shape: Sequence[int], number: Any) -> np.ndarray:
    """Return an array of one number."""
    found = np.empty(tuple(shape), object)
    found[...] = number
    return found


class Intervals:
    """Real numbers between doubles."""

    __slots__ = ("high", "low")

    def __init__(self, low: np.ndarray, high: np.ndarray) -> None:
        self.low = low
        self.high = high

    def __add__(self, other: Intervals) -> Intervals:
        return _outward(self.low + other.low, self.high + other.high)

    def __neg__(self) -> Intervals:
        return Intervals(-self.high, -self.low)

    def __sub__(self, other: Intervals) -> Intervals:
        return _outward(self.low - other.high, self.high - other.low)

    def __mul__(self, other: Intervals) -> Intervals:
        corners = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return _outward(np.minimum.reduce(corners), np.maximum.reduce(corners))

    def __truediv__(self, other: Intervals) -> Intervals:
        with np.errstate(divide="ignore", invalid="ignore"):
            corners = [a / b for a in (self.low, self.high) for b in (other.low, other.high)]
        unclear = (other.low <= 0) & (other.high >= 0)
        low, high = np.minimum.reduce(corners), np.maximum.reduce(corners)
        return _outward(np.where(unclear, -np.inf, low), np.where(unclear, np.inf, high))

    def __abs__(self) -> Intervals:
        sizes = np.abs(self.low), np.abs(self.high)
        spans = (self.low < 0) & (self.high > 0)
        return Intervals(np.where(spans, 0.0, np.minimum(*sizes)), np.maximum(*sizes))


def _outward(low: np.ndarray, high: np.ndarray) -> Intervals:
    return Intervals(np.nextafter(low, -np.inf), np.nextafter(high, np.inf))


class IntervalArithmetic(Arithmetic[Intervals]):
    """Computes with intervals of doubles: of tensors that have one more axis, the last, for any number of points."""

    def of(self, numbers: Reals) -> Intervals:
        """Return numbers that are broadcast to a tensor."""
        return Intervals((numbers.near - numbers.slack)[..., None], (numbers.near + numbers.slack)[..., None])

    def number(self, number: Number) -> Intervals:
        """Return a number."""
        near = np.array(float(number))
        return Intervals(near, near) if number == Fraction(float(near)) else _outward(near, near)

    def greater(self, a: Intervals, b: Intervals) -> Intervals:
        """Return the greater of numbers."""
        return Intervals(np.maximum(a.low, b.low), np.maximum(a.high, b.high))

    def growing(self, name: str, x: Intervals) -> Intervals:
        """Return the values of a function that grows."""
        function = _DOUBLES[name]
        with np.errstate(over="ignore", under="ignore"):
            low, high = function(x.low), function(x.high)
        return _outward(low - np.abs(low) * _UNITS, high + np.abs(high) * _UNITS)

    def rounded(self, mode: str, x: Intervals) -> Intervals:
        """Round to integers."""
        low, high = round_numpy(mode, x.low), round_numpy(mode, x.high)
        # The sum of a double and a half is rounded itself.
        near = np.abs(np.abs(x.low) % 1 - 0.5) < _UNITS * np.maximum(1.0, np.abs(x.low))
        near |= np.abs(np.abs(x.high) % 1 - 0.5) < _UNITS * np.maximum(1.0, np.abs(x.high))
        unclear = near & (mode in ("HALF_UP", "HALF_DOWN"))
        return Intervals(np.where(unclear, np.floor(x.low), low), np.where(unclear, np.ceil(x.high), high))

    def reached(self, x: Intervals, thresholds: Intervals, weights: Intervals) -> Intervals:
        """Return weights where thresholds are reached, and else zeros."""
        sure, possible = x.low >= thresholds.high, x.high >= thresholds.low
        low, high = np.where(sure, weights.low, np.where(possible, np.minimum(weights.low, 0), 0.0)), weights.high
        return Intervals(low, np.where(sure, high, np.where(possible, np.maximum(high, 0), 0.0)))


_DOUBLES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "exp": np.exp,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sinh": np.sinh,
    "softplus": lambda x: np.logaddexp(0.0, x),
    "tanh": np.tanh,
}


def known(value: ir.Value) -> Reals:
    """Return what a constant stands for. Raises UnknownOperatorError."""
    found = meaning(value)
    if found is None:
        raise UnknownOperatorError(f"'{value.name}' is computed, or holds no finite numbers")
    return found
