"""Arrays of real numbers, known as closely as somebody asks: doubles with bounds of their error, exact on demand.

Scales and biases are multiplied, added and moved about as arrays of doubles, at the speed of these; every element can
say what it is exactly, by going back to the numbers that it was made of. Few are ever asked: those that lie too near to
an edge for doubles to tell the side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from onnx_passes.numbers.surds import Number, Surd, square_root

Exact = Callable[[int], Number]
"""Returns an element, by its place in the array as numpy lays it out."""

_UNIT = 2.0**-52
_LEAST = 2.0**-1000
"""More than what is lost where doubles are too small to be rounded in proportion."""
_WHOLE = 2.0**53
"""Doubles hold all integers below."""


class Reals:
    """Real numbers: doubles ``near`` to them, no further away than ``slack``."""

    __slots__ = ("_exact", "near", "slack")

    def __init__(self, near: np.ndarray, slack: np.ndarray, exact: Exact) -> None:
        self.near = near
        self.slack = slack
        self._exact = exact

    @staticmethod
    def of(numbers: np.ndarray | np.floating | float) -> Reals:
        """Return the exact values of floats."""
        near = np.asarray(numbers).astype(np.float64)
        return Reals(near, np.zeros((1,) * near.ndim), lambda place: Fraction(float(near.flat[place])))

    @staticmethod
    def each(numbers: Sequence[Number]) -> Reals:
        """List numbers that are known exactly."""
        near = np.array([float(number) for number in numbers])
        return Reals(near, np.abs(near) * _UNIT + _LEAST, lambda place: numbers[place])

    @staticmethod
    def zeros(rank: int) -> Reals:
        """Return a zero of some rank."""
        return Reals.of(np.zeros((1,) * rank))

    @staticmethod
    def ones(rank: int) -> Reals:
        """Return a one of some rank."""
        return Reals.of(np.ones((1,) * rank))

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape."""
        return self.near.shape

    @property
    def ndim(self) -> int:
        """Return the rank."""
        return self.near.ndim

    @property
    def size(self) -> int:
        """Return how many there are."""
        return self.near.size

    def __getitem__(self, place: int) -> Number:
        return self._exact(place)

    def at(self, index: Sequence[int]) -> Number:
        """Return the element that is broadcast to an index."""
        return self._exact(_place(index, self.shape))

    def list(self) -> list[Number]:
        """Return all numbers exactly."""
        return [self._exact(place) for place in range(self.size)]

    def moved(self, change: Callable[[np.ndarray], np.ndarray]) -> Reals:
        """Apply a movement of elements."""
        places = change(np.arange(self.size).reshape(self.shape))
        return self.taken(places)

    def taken(self, places: np.ndarray) -> Reals:
        """Return the elements at places of the array as numpy lays it out, in the shape of these."""
        exact, flat = self._exact, places.reshape(-1)
        slack = np.broadcast_to(self.slack, self.shape).reshape(-1)[flat].reshape(places.shape)
        return Reals(self.near.reshape(-1)[flat].reshape(places.shape), slack, lambda place: exact(int(flat[place])))

    def reshape(self, *shape: int) -> Reals:
        """Return the same numbers in another shape."""
        near = self.near.reshape(shape)
        slack = self.slack.reshape((1,) * near.ndim) if self.slack.size == 1 else self.slack.reshape(shape)
        return Reals(near, slack, self._exact)

    @property
    def T(self) -> Reals:  # noqa: N802 - as numpy has it, for who takes them for arrays
        """Return them with the axes in reverse order."""
        return self.moved(np.transpose)

    def spread(self, rank: int) -> Reals:
        """Add leading axes up to a rank."""
        return self if self.ndim >= rank else self.reshape(*(1,) * (rank - self.ndim), *self.shape)

    def __add__(self, other: Reals) -> Reals:
        near = self.near + other.near
        # What the sum of two doubles loses is a double itself.
        back = near - self.near
        lost = (self.near - (near - back)) + (other.near - back)
        return _made(near, self.slack + other.slack + np.abs(lost), self, other, lambda a, b: a + b)

    def __neg__(self) -> Reals:
        exact = self._exact
        return Reals(-self.near, self.slack, lambda place: -exact(place))

    def __sub__(self, other: Reals) -> Reals:
        return self + -other

    def __mul__(self, other: Reals) -> Reals:
        near = self.near * other.near
        # Products of integers are exact as far as doubles hold all integers.
        is_exact = _are_integers(self.near) & _are_integers(other.near) & (np.abs(near) < _WHOLE)
        is_exact |= (self.near == 0) | (other.near == 0)
        lost = np.where(is_exact, 0.0, np.abs(near) * _UNIT + _LEAST)
        slack = np.abs(self.near) * other.slack + self.slack * (np.abs(other.near) + other.slack)
        return _made(near, slack + lost, self, other, lambda a, b: a * b)

    def __truediv__(self, other: Reals) -> Reals:
        with np.errstate(divide="ignore", invalid="ignore"):
            near = self.near / other.near
            least = np.abs(other.near) - other.slack
            lost = np.where(np.abs(other.near) == 1, 0.0, np.abs(near) * _UNIT + _LEAST)
            slack = (self.slack + np.abs(near) * other.slack) / least + lost
        unsure = ~np.isfinite(near) | (least <= 0)
        exactly_zero = (self.near == 0) & (self.slack == 0)
        slack = np.where(unsure, np.inf, np.where(exactly_zero, 0.0, slack))
        return _made(np.where(unsure, 0.0, near), slack, self, other, _quotient)

    def root(self) -> Reals:
        """Return the square roots of numbers that are rational and positive."""
        near, exact = np.sqrt(self.near), self._exact
        slack = near * _UNIT + self.slack / near + _LEAST

        def root(place: int) -> Number:
            number = exact(place)
            if isinstance(number, Surd):
                raise ArithmeticError("a root of a root is not computed")
            return square_root(number)

        return Reals(near, slack, root)

    def __abs__(self) -> Reals:
        exact = self._exact
        return Reals(np.abs(self.near), self.slack, lambda place: abs(exact(place)))

    def signs(self) -> np.ndarray:
        """Return for each number whether it is positive, zero or negative, as 1, 0 or -1."""
        found = np.sign(self.near)
        for place in np.flatnonzero((np.abs(self.near) <= self.slack) & (self.slack > 0)):
            number = self._exact(int(place))
            found.flat[place] = (number > 0) - (number < 0)
        return found

    def is_everywhere(self, number: int) -> bool:
        """Return whether all elements equal one number."""
        if bool((np.abs(self.near - number) > self.slack).any()):
            return False
        return not self.slack.any() or all(each == number for each in self.list())

    def integers(self) -> np.ndarray | None:
        """Return all as doubles if they are integers that doubles hold."""
        whole = np.rint(self.near)
        if bool((np.abs(self.near - whole) > self.slack).any() or (np.abs(whole) >= _WHOLE).any()):
            return None
        if not self.slack.any():
            return whole
        found = self.list()
        if any(isinstance(each, Surd) or Fraction(each).denominator != 1 for each in found):
            return None
        return np.array([float(each) for each in found]).reshape(self.shape)

    def equals(self, other: Reals) -> bool:
        """Return whether two arrays, which are broadcast, hold the same numbers."""
        return bool((self - other).is_everywhere(0))


def joined(parts: Sequence[Reals]) -> Reals:
    """List the numbers of several arrays one after the other."""
    ends = np.cumsum([part.size for part in parts])

    def exact(place: int) -> Number:
        number = int(np.searchsorted(ends, place, side="right"))
        return parts[number][place - int(ends[number]) + parts[number].size]

    slack = [np.broadcast_to(part.slack, part.shape).reshape(-1) for part in parts]
    return Reals(np.concatenate([part.near.reshape(-1) for part in parts]), np.concatenate(slack), exact)


def product(rows: Reals, matrix: np.ndarray) -> Reals:
    """Return the matrix product of rows, which may be broadcast along columns, and a matrix of integers."""
    if rows.shape[-1] == 1:
        return rows * Reals.of(matrix.sum(axis=-2, keepdims=True, dtype=np.float64))
    near = np.matmul(rows.near, matrix)
    sizes = np.abs(matrix)
    slack = np.matmul(np.broadcast_to(rows.slack, rows.shape), sizes)
    slack = slack + np.matmul(np.abs(rows.near), sizes) * (_UNIT * matrix.shape[-2]) + _LEAST
    held: dict[int, Number] = {}

    def exact(place: int) -> Number:
        *batch, row, column = map(int, np.unravel_index(place, near.shape))
        total: Number = Fraction()
        each = matrix[(*batch, slice(None), column)] if matrix.ndim == near.ndim else matrix[..., column]
        for index in np.flatnonzero(each):
            at = _place((*batch, row, int(index)), rows.shape)
            if at not in held:
                held[at] = rows[at]
            total = total + held[at] * int(each[index])
        return total

    return Reals(near, slack, exact)


def _are_integers(near: np.ndarray) -> np.ndarray:
    return near == np.rint(near)


def _quotient(a: Number, b: Number) -> Number:
    return a / b if isinstance(a, Surd) else Fraction(a) / b


def _made(
    near: np.ndarray, slack: np.ndarray, a: Reals, b: Reals, compute: Callable[[Number, Number], Number]
) -> Reals:
    # Bounds are rounded as well.
    slack = slack * (1 + 2 * _UNIT)
    if a.shape == b.shape:
        return Reals(near, slack, lambda place: compute(a[place], b[place]))
    shape = near.shape

    def exact(place: int) -> Number:
        index = [int(at) for at in np.unravel_index(place, shape)]
        return compute(a[_place(index, a.shape)], b[_place(index, b.shape)])

    return Reals(near, slack, exact)


def _place(index: Sequence[int], shape: tuple[int, ...]) -> int:
    """Return the place, in an array that is broadcast, of an index of the result."""
    place = 0
    for size, at in zip(shape, index[len(index) - len(shape) :], strict=True):
        place = place * size + (0 if size == 1 else int(at))
    return place
