"""Real numbers that are known by intervals, as narrow as somebody asks: values of functions such as the exponential.

Of a rational argument other than zero these functions are no rational numbers, so that some interval tells them from
any edge. A number that none of a sensible width tells from another is an error: nothing is guessed.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from onnx_passes.numbers.surds import Number, Surd

Interval = tuple[Fraction, Fraction]
_FIRST_BITS, _MOST_BITS = 64, 4096
_GUARD = 32
_FARTHEST = 1 << 16
_KNOWN = (Surd, Fraction, int)


class UndecidedError(ArithmeticError):
    """Two numbers that may be equal."""


class Enclosed:
    """A number of which there are intervals of any width."""

    __slots__ = ("_interval",)

    def __init__(self, interval: Callable[[int], Interval]) -> None:
        """Take a function that returns an interval, from so many bits of everything that it is made of."""
        self._interval = interval

    def interval(self, bits: int) -> Interval:
        """Return numbers below and above."""
        return self._interval(bits)

    def __add__(self, other: Any) -> Enclosed:
        return _combined(self, other, lambda a, b: (a[0] + b[0], a[1] + b[1]))

    __radd__ = __add__

    def __neg__(self) -> Enclosed:
        return Enclosed(lambda bits: _negative(self._interval(bits)))

    def __sub__(self, other: Any) -> Enclosed:
        return self + -other

    def __rsub__(self, other: Any) -> Enclosed:
        return -self + other

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Fraction | int) and not other:
            return Fraction()
        return _combined(self, other, _product)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        if isinstance(other, _KNOWN):
            return self * (Fraction(1) / other)
        return _combined(self, other, _quotient)

    def __rtruediv__(self, other: Any) -> Any:
        return _combined(other, self, _quotient)

    def __abs__(self) -> Enclosed:
        return self if self.sign() > 0 else -self

    def sign(self) -> int:
        """Return 1 or -1. Raises UndecidedError."""
        bits = _FIRST_BITS
        while bits <= _MOST_BITS:
            low, high = self._interval(bits)
            if low > 0 or high < 0:
                return 1 if low > 0 else -1
            bits *= 2
        raise UndecidedError("a number may be zero")

    def __lt__(self, other: Any) -> bool:
        return (self - other).sign() < 0

    __le__ = __lt__

    def __gt__(self, other: Any) -> bool:
        return (self - other).sign() > 0

    __ge__ = __gt__

    def __eq__(self, other: object) -> bool:
        return self is other or (self - other).sign() == 0

    def __hash__(self) -> int:
        return id(self)

    def __float__(self) -> float:
        low, high = self._interval(2 * _FIRST_BITS)
        return float((low + high) / 2)

    def __floor__(self) -> int:
        low, high = self._interval(2 * _FIRST_BITS)
        least, most = math.floor(low), math.floor(high)
        while least < most:
            middle = (least + most + 1) // 2
            least, most = (middle, most) if self >= middle else (least, middle - 1)
        return least


Real = Number | Enclosed


def growing(name: str, at_zero: Fraction | None, argument: Real) -> Real:
    """Return the value of a function of mpmath, or of one below, that grows everywhere; at zero it is known exactly."""
    if at_zero is not None and isinstance(argument, _KNOWN) and argument == 0:
        return at_zero
    function = _FUNCTIONS[name]
    if not -_FARTHEST < argument < _FARTHEST:
        raise UndecidedError("a number is too large to be enclosed")

    def interval(bits: int) -> Interval:
        mpmath: Any = importlib.import_module("mpmath")
        low, high = _interval(argument, bits)
        with mpmath.workprec(bits + _GUARD):
            ends = [function(mpmath, mpmath.mpf(end.numerator) / end.denominator) for end in (low, high)]
            found = [Fraction(*mpmath.libmp.to_rational(end._mpf_)) for end in ends]
        slack = Fraction(1, 1 << bits)
        return found[0] - slack * (1 + abs(found[0])), found[1] + slack * (1 + abs(found[1]))

    return Enclosed(interval)


_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "asinh": lambda mp, x: mp.asinh(x),
    "atan": lambda mp, x: mp.atan(x),
    "erf": lambda mp, x: mp.erf(x),
    "exp": lambda mp, x: mp.exp(x),
    "sigmoid": lambda mp, x: 1 / (1 + mp.exp(-x)),
    "sinh": lambda mp, x: mp.sinh(x),
    "softplus": lambda mp, x: mp.log1p(mp.exp(x)),
    "tanh": lambda mp, x: mp.tanh(x),
}


def _interval(number: Real, bits: int) -> Interval:
    if isinstance(number, Enclosed):
        return number.interval(bits)
    return number.enclosed(bits) if isinstance(number, Surd) else (Fraction(number), Fraction(number))


def _combined(a: Real, b: Real, combine: Callable[[Interval, Interval], Interval]) -> Enclosed:
    return Enclosed(lambda bits: combine(_interval(a, bits), _interval(b, bits)))


def _negative(interval: Interval) -> Interval:
    return -interval[1], -interval[0]


def _product(a: Interval, b: Interval) -> Interval:
    corners = [left * right for left in a for right in b]
    return min(corners), max(corners)


def _quotient(a: Interval, b: Interval) -> Interval:
    if b[0] <= 0 <= b[1]:
        raise UndecidedError("a divisor may be zero")
    return _product(a, (1 / b[1], 1 / b[0]))
