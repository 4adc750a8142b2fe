"""Arithmetics of real numbers: exact ones, intervals of doubles, doubles with bounds of their error.

An arithmetic decides what an array of real numbers is; what operators compute of them is written once for all of them
(``real_functions.py``).
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, Generic, TypeVar, cast

import numpy as np

from onnx_passes.numbers.algebra import Symbol
from onnx_passes.numbers.enclosures import Real, growing
from onnx_passes.numbers.reals import Reals
from onnx_passes.numbers.rounding import edge, round_numpy
from onnx_passes.numbers.surds import Number, Surd, square_root

T = TypeVar("T")
_SMALL = 2**31
"""Sums of products of integers below this fit in 64 bits."""
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
    """Arrays of real numbers that are added, multiplied and compared; what operators of Python do not cover.

    Operations that an arithmetic does not know raise UnknownOperatorError.
    """

    @abstractmethod
    def of(self, numbers: Reals) -> T:
        """Return numbers that are broadcast to a tensor."""

    @abstractmethod
    def number(self, number: Number) -> T:
        """Return a number."""

    @abstractmethod
    def greater(self, a: T, b: T) -> T:
        """Return the greater of numbers."""

    def lesser(self, a: T, b: T) -> T:
        """Return the lesser of numbers."""
        return -cast(Any, self.greater(-cast(Any, a), -cast(Any, b)))

    @abstractmethod
    def growing(self, name: str, x: T) -> T:
        """Return the values of a function that grows."""

    @abstractmethod
    def rounded(self, mode: str, x: T) -> T:
        """Round to integers."""

    @abstractmethod
    def reached(self, x: T, thresholds: T, weights: T) -> T:
        """Return weights where thresholds are reached, and else zeros."""

    def where(self, condition: T, a: T, b: T) -> T:
        """Return the first numbers where a condition is one, and the others where it is zero."""
        return cast(Any, b) + cast(Any, condition) * (cast(Any, a) - cast(Any, b))

    def root(self, x: T) -> T:
        """Return square roots."""
        raise UnknownOperatorError("roots are not computed exactly")

    def smooth(self, name: str, x: T) -> T:
        """Return the values of a function of which only the name is known."""
        raise UnknownOperatorError(f"{name} is not computed exactly")

    def unknown(self, symbol: Symbol, operands: Sequence[T]) -> T:
        """Return the values of a function that has no entry among the functions of real numbers."""
        raise UnknownOperatorError(f"{symbol.name} is not computed exactly")

    def equals(self, x: T, number: Fraction) -> bool:
        """Return whether numbers are known to be all the same one."""
        return False

    def within(self, x: T, low: int, high: int) -> bool:
        """Return whether numbers are known to lie in a range."""
        return False

    def assume(self, text: str) -> None:
        """Note what a result rests on."""

    def length(self, rows: T) -> int:
        """Return the size of the last axis."""
        return int(cast(Any, rows).shape[-1])

    def at(self, rows: T, place: int) -> T:
        """Return the elements at one place of the last axis."""
        return cast(Any, rows)[..., place]

    def total(self, rows: T) -> T:
        """Add up along the last axis."""
        return functools.reduce(lambda x, y: x + y, [cast(Any, self.at(rows, i)) for i in range(self.length(rows))])

    def dot(self, left: T, right: T) -> T:
        """Return scalar products along the last axis."""
        return self.total(cast(Any, left) * cast(Any, right))

    def extreme(self, rows: T, *, greatest: bool) -> T:
        """Return the greatest or the least numbers along the last axis."""
        choose = self.greater if greatest else self.lesser
        return functools.reduce(choose, [self.at(rows, place) for place in range(self.length(rows))])


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

    def lesser(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return the lesser of numbers."""
        return each(min, a, b)

    def growing(self, name: str, x: np.ndarray) -> np.ndarray:
        """Return the values of a function that grows."""
        return each(partial(growing, name, AT_ZERO[name]), x)

    def rounded(self, mode: str, x: np.ndarray) -> np.ndarray:
        """Round to integers."""
        return each(partial(rounded, mode), x)

    def reached(self, x: np.ndarray, thresholds: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return weights where thresholds are reached, and else zeros."""
        return each(_where_reached, x, thresholds, weights)

    def where(self, condition: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return the first numbers where a condition is one, and the others where it is zero."""
        return each(_choice, condition, a, b)

    def root(self, x: np.ndarray) -> np.ndarray:
        """Return square roots."""
        if any(isinstance(number, Surd) for number in x.flat):
            raise UnknownOperatorError("a root of a root is not computed exactly")
        return each(square_root, x)

    def equals(self, x: np.ndarray, number: Fraction) -> bool:
        """Return whether numbers are all the same one."""
        return all(isinstance(each, Fraction | int) and each == number for each in x.flat)

    def within(self, x: np.ndarray, low: int, high: int) -> bool:
        """Return whether numbers lie in a range."""
        return all(low <= number <= high for number in x.flat)

    def total(self, rows: np.ndarray) -> np.ndarray:
        """Add up along the last axis: rational numbers as integers with one denominator, which takes far less time."""
        integers = _integers(rows)
        if integers is None:
            return np.asarray(rows.sum(axis=-1), object)
        return _divided(integers[0].sum(axis=-1), integers[1])

    def dot(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return scalar products along the last axis, of rational numbers as integers."""
        a, b = _integers(left), _integers(right)
        if a is None or b is None:
            return self.total(left * right)
        return _divided((a[0] * b[0]).sum(axis=-1), a[1] * b[1])


def _integers(array: np.ndarray) -> tuple[np.ndarray, int] | None:
    """Return numerators above a common denominator, as machine integers where products of them fit; None of surds.

    Arrays of products hold the same objects many times: each is converted once.
    """
    flat = array.reshape(-1).tolist()
    distinct = {id(number): number for number in flat}
    if not all(isinstance(number, Fraction | int) for number in distinct.values()):
        return None
    common = math.lcm(*{Fraction(number).denominator for number in distinct.values()})
    whole = {key: int(number * common) for key, number in distinct.items()}
    small = max(map(abs, whole.values()), default=0) * max(array.shape[-1], 1) < _SMALL
    numerators = [whole[id(number)] for number in flat]
    if small:
        return np.array(numerators, np.int64).reshape(array.shape), common
    return np.array([*numerators, None], object)[:-1].reshape(array.shape), common


def _choice(condition: Any, number: Any, other: Any) -> Any:
    return number if condition else other


def _divided(total: Any, by: int) -> np.ndarray:
    return np.asarray(np.asarray(total, object) * Fraction(1, by), object)


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


class RealsArithmetic(Arithmetic[Reals]):
    """Computes with doubles and bounds of their error, and exactly where these doubt.

    ``laid_out`` brings numbers that are broadcast to a tensor into the shape that is computed with.
    """

    def __init__(self, laid_out: Callable[[Reals], Reals] = lambda numbers: numbers) -> None:
        self._laid_out = laid_out

    def of(self, numbers: Reals) -> Reals:
        """Return numbers that are broadcast to a tensor."""
        return self._laid_out(numbers)

    def number(self, number: Number) -> Reals:
        """Return a number."""
        exact = not isinstance(number, Surd) and Fraction(float(number)) == number
        return Reals.of(float(number)) if exact else Reals.each([number]).reshape()

    def greater(self, a: Reals, b: Reals) -> Reals:
        """Return the greater of numbers."""
        return _chosen((a - b).signs() >= 0, a, b)

    def lesser(self, a: Reals, b: Reals) -> Reals:
        """Return the lesser of numbers."""
        return _chosen((a - b).signs() <= 0, a, b)

    def growing(self, name: str, x: Reals) -> Reals:
        """Refuse functions whose values are no sums of roots."""
        raise UnknownOperatorError(f"{name} is not a line between bounds")

    def rounded(self, mode: str, x: Reals) -> Reals:
        """Round to integers; numbers too near to an edge for doubles are rounded without error."""
        near, slack = np.broadcast_arrays(x.near, x.slack)
        found = round_numpy(mode, near)
        least = round_numpy(mode, np.where(slack == 0, near, np.nextafter(near - slack, -np.inf)))
        most = round_numpy(mode, np.where(slack == 0, near, np.nextafter(near + slack, np.inf)))
        # The sum of a double and a half is rounded itself.
        unsure = (least != most) | (np.abs(np.abs(near) % 1 - 0.5) < _UNITS * np.maximum(1.0, np.abs(near)))
        found = np.array(found)
        for place in np.flatnonzero(unsure):
            found.flat[place] = float(rounded(mode, x[int(place)]))
        return Reals.of(found)

    def reached(self, x: Reals, thresholds: Reals, weights: Reals) -> Reals:
        """Return weights where thresholds are reached, and else zeros."""
        return _chosen((x - thresholds).signs() >= 0, weights, Reals.zeros(0))

    def where(self, condition: Reals, a: Reals, b: Reals) -> Reals:
        """Return the first numbers where a condition is one, and the others where it is zero."""
        return _chosen(condition.signs() != 0, a, b)

    def root(self, x: Reals) -> Reals:
        """Return square roots of positive numbers."""
        if not (x.signs() > 0).all():
            raise ArithmeticError("a root of zero, or of less")
        return x.root()

    def equals(self, x: Reals, number: Fraction) -> bool:
        """Return whether numbers are all the same one."""
        return number.denominator == 1 and x.is_everywhere(int(number))

    def within(self, x: Reals, low: int, high: int) -> bool:
        """Return whether numbers are known to lie in a range."""
        return bool(((x.near - x.slack >= low) & (x.near + x.slack <= high)).all())


def _chosen(first: np.ndarray, a: Reals, b: Reals) -> Reals:
    shape = np.broadcast_shapes(first.shape, a.shape, b.shape)
    first = np.broadcast_to(first, shape)
    a, b = (numbers.moved(lambda places: np.broadcast_to(places, shape)) for numbers in (a, b))
    flat = first.reshape(-1)
    slack = np.where(first, np.broadcast_to(a.slack, shape), np.broadcast_to(b.slack, shape))
    return Reals(np.where(first, a.near, b.near), slack, lambda place: a[place] if flat[place] else b[place])


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

    def lesser(self, a: Intervals, b: Intervals) -> Intervals:
        """Return the lesser of numbers."""
        return Intervals(np.minimum(a.low, b.low), np.minimum(a.high, b.high))

    def where(self, condition: Intervals, a: Intervals, b: Intervals) -> Intervals:
        """Return the first numbers where a condition is one, the others where it is zero, and both where it may be."""
        yes, no = condition.low > 0, condition.high < 1
        low = np.where(yes, a.low, np.where(no, b.low, np.minimum(a.low, b.low)))
        return Intervals(low, np.where(yes, a.high, np.where(no, b.high, np.maximum(a.high, b.high))))

    def root(self, x: Intervals) -> Intervals:
        """Return square roots."""
        if not (x.low >= 0).all():
            raise ArithmeticError("a root of less than zero")
        return _outward(np.sqrt(x.low), np.sqrt(x.high))

    def equals(self, x: Intervals, number: Fraction) -> bool:
        """Return whether numbers are known to be all the same one."""
        near = float(number)
        return near == number and bool(((x.low == near) & (x.high == near)).all())

    def within(self, x: Intervals, low: int, high: int) -> bool:
        """Return whether numbers are known to lie in a range."""
        return bool(((x.low >= low) & (x.high <= high)).all())

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
