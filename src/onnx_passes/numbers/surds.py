"""Rational numbers and square roots of them, added up: ``r0 + r1 * sqrt(n1) + ...``, compared without rounding.

A batch normalization divides by a root, everything else between quantizers is rational. Roots of integers of which no
two have a square as their product are linearly independent over the rationals, and of 1 as well if none is a square
itself: such a sum is zero only where all its coefficients are. So every comparison is decided, ties included.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, cast

import numpy as np

Rational = Fraction | int
_FIRST_BITS = 128
_UNIT = 2.0**-51
"""Twice what a double is off by when it is rounded twice."""
_SMALLEST = 2.0**-900
"""Doubles below lose digits."""


class Surd:
    """A sum of coefficients times roots, at least one of which is irrational."""

    __slots__ = ("terms",)

    def __init__(self, terms: Mapping[int, Fraction]) -> None:
        """Store the coefficients by radicand; the coefficient of 1 is the rational part."""
        self.terms = terms

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, _KNOWN):
            return NotImplemented
        terms = dict(self.terms)
        for radicand, coefficient in _terms(other).items():
            _accumulate(terms, radicand, coefficient)
        return _simplest(terms)

    __radd__ = __add__

    def __neg__(self) -> Surd:
        return Surd({radicand: -coefficient for radicand, coefficient in self.terms.items()})

    def __sub__(self, other: Any) -> Any:
        return self + -other

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __mul__(self, other: Any) -> Any:
        if not isinstance(other, _KNOWN):
            return NotImplemented
        if not isinstance(other, Surd):
            scaled = {radicand: coefficient * other for radicand, coefficient in self.terms.items()}
            return Surd(scaled) if other else Fraction()
        terms: dict[int, Fraction] = {}
        for a, left in self.terms.items():
            for b, right in other.terms.items():
                common = math.gcd(a, b)
                _accumulate(terms, (a // common) * (b // common), left * right * common)
        return _simplest(terms)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        if not isinstance(other, _KNOWN):
            return NotImplemented
        return self * (other.inverse() if isinstance(other, Surd) else 1 / Fraction(other))

    def __rtruediv__(self, other: Any) -> Any:
        return self.inverse() * other

    def inverse(self) -> Any:
        """Return 1 divided by it: by conjugates, one root after the other."""
        last = max(self.terms)
        conjugate = Surd({n: -c if n == last else c for n, c in self.terms.items()})
        if len(self.terms) == 1:
            return Surd({last: 1 / (self.terms[last] * last)})
        if len(self.terms) > 2 or 1 not in self.terms:
            raise ArithmeticError("a quotient of sums of several roots is not computed")
        return conjugate / (self * conjugate)

    def __abs__(self) -> Surd:
        return self if self.sign() > 0 else -self

    def __pos__(self) -> Surd:
        return self

    def __bool__(self) -> bool:
        return True

    def sign(self) -> int:
        """Return 1 or -1; it is not zero."""
        if near := self._near_sign():
            return near
        bits = _FIRST_BITS
        while True:
            low, high = self.enclosed(bits)
            if low > 0 or high < 0:
                return 1 if low > 0 else -1
            bits *= 2

    def _near_sign(self) -> int:
        """Return the sign if doubles are enough to see it, else 0."""
        try:
            parts = [float(coefficient) * math.sqrt(radicand) for radicand, coefficient in self.terms.items()]
        except OverflowError:
            return 0
        total = sum(parts)
        # Each part is off by two units in the last place, and as much is lost again with every addition.
        lost = sum(map(abs, parts)) * (len(parts) + 2) * _UNIT
        return (total > 0) - (total < 0) if max(lost, _SMALLEST) < abs(total) < math.inf else 0

    def enclosed(self, bits: int) -> tuple[Fraction, Fraction]:
        """Return numbers below and above, from so many bits of each root behind the point."""
        low = high = Fraction()
        for radicand, coefficient in self.terms.items():
            if radicand == 1:
                low, high = low + coefficient, high + coefficient
                continue
            root = math.isqrt(radicand << 2 * bits)
            ends = coefficient * Fraction(root, 1 << bits), coefficient * Fraction(root + 1, 1 << bits)
            low, high = low + min(ends), high + max(ends)
        return low, high

    def __lt__(self, other: Any) -> bool:
        return _sign(self - other) < 0 if isinstance(other, _KNOWN) else NotImplemented

    def __le__(self, other: Any) -> bool:
        return _sign(self - other) <= 0 if isinstance(other, _KNOWN) else NotImplemented

    def __gt__(self, other: Any) -> bool:
        return _sign(self - other) > 0 if isinstance(other, _KNOWN) else NotImplemented

    def __ge__(self, other: Any) -> bool:
        return _sign(self - other) >= 0 if isinstance(other, _KNOWN) else NotImplemented

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Surd | Fraction | int) and not self - other

    def __hash__(self) -> int:
        return hash(float(self))

    def __float__(self) -> float:
        bits = _FIRST_BITS
        while True:
            low, high = self.enclosed(bits)
            if float(low) == float(high):
                return float(low)
            bits *= 2

    def __floor__(self) -> int:
        low, high = self.enclosed(_FIRST_BITS)
        least, most = math.floor(low), math.floor(high)
        while least < most:
            middle = (least + most + 1) // 2
            least, most = (middle, most) if self >= middle else (least, middle - 1)
        return least

    def __ceil__(self) -> int:
        return -math.floor(-self)

    def __repr__(self) -> str:
        return " + ".join(f"{c}" if n == 1 else f"{c}*sqrt({n})" for n, c in self.terms.items())


Number = Fraction | int | Surd
"""What is computed with exactly."""
_KNOWN = (Surd, Fraction, int)


def square_root(number: Rational) -> Number:
    """Return the root of a rational number that is not negative."""
    number = Fraction(number)
    if number < 0:
        raise ArithmeticError("a negative number has no root")
    terms: dict[int, Fraction] = {}
    _accumulate(terms, number.numerator * number.denominator, Fraction(1, number.denominator))
    return _simplest(terms)


def _sign(number: Number) -> int:
    return number.sign() if isinstance(number, Surd) else (number > 0) - (number < 0)


def _terms(number: Number) -> Mapping[int, Fraction]:
    if isinstance(number, Surd):
        return number.terms
    return {1: Fraction(number)} if number else {}


def _accumulate(terms: dict[int, Fraction], radicand: int, coefficient: Fraction) -> None:
    """Add a multiple of a root, as a multiple of one that is there already where it is one."""
    for known in (1, *terms):
        root = math.isqrt(known * radicand)
        if root * root == known * radicand:
            radicand, coefficient = known, coefficient * Fraction(root, known)
            break
    total = terms.pop(radicand, Fraction()) + coefficient
    if total and radicand:
        terms[radicand] = total


def _simplest(terms: dict[int, Fraction]) -> Number:
    return Surd(terms) if any(radicand != 1 for radicand in terms) else terms.get(1, Fraction())


_FRACTION = np.frompyfunc(Fraction, 1, 1)
_FLOAT = np.frompyfunc(float, 1, 1)
_ROOT = np.frompyfunc(square_root, 1, 1)


def exactly(array: np.ndarray | float) -> np.ndarray:
    """Return the numbers that the bits of an array say; those of integers, floats and doubles."""
    array = np.asarray(array)
    if array.dtype == object:
        return array
    wide = array.astype(np.int64 if array.dtype.kind in "iub" else np.float64)
    return _objects(_FRACTION(wide.astype(object)), wide.shape)


def nearest(array: np.ndarray) -> np.ndarray:
    """Return the doubles that are nearest to exact numbers."""
    return np.asarray(_FLOAT(array), np.float64)


def roots(array: np.ndarray) -> np.ndarray:
    """Return square roots."""
    return _objects(_ROOT(array), array.shape)


def next_float(number: Number, *, above: bool) -> np.float32:
    """Return the first float that is not less than a number; with ``above``, that is greater."""
    with np.errstate(over="ignore"):
        near = np.float32(float(number))
    while not _passes(near, number, above=above):
        near = np.nextafter(near, np.float32(math.inf))
    while math.isfinite(before := np.nextafter(near, np.float32(-math.inf))) and _passes(before, number, above=above):
        near = before
    return near


def _passes(near: np.float32, number: Number, *, above: bool) -> bool:
    if not math.isfinite(near):
        return bool(near > 0)
    exact = Fraction(float(near))
    return exact > number if above else exact >= number


def _objects(found: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return an array also where numpy returns a number alone, of an array without axes."""
    if isinstance(found, np.ndarray):
        return cast("np.ndarray", found)
    result = np.empty(shape, object)
    result[...] = found
    return result
