"""Tails that are straight lines between bounds: their thresholds are quotients, exact in rational numbers.

``min(max(scale * x + bias, low), high)`` stays of that form whatever number is added, whatever it is multiplied with or
bounded by. A level that begins at ``e`` begins at ``(e - bias) / scale`` of x: the first integer, or float, from there
on is the threshold. Quotients are computed in doubles; those that lie too near to an integer, or to a float, for the
bounds of their error are computed again without rounding, from what constants stand for
(``ops/semantics/exact.py``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, NamedTuple

import numpy as np
import onnx_ir as ir

from onnx_passes.numbers.arithmetic import Arithmetic, UnknownOperatorError
from onnx_passes.numbers.reals import Reals
from onnx_passes.numbers.rounding import Edge
from onnx_passes.numbers.surds import Number, next_float
from onnx_passes.ops.semantics.exact import apply
from onnx_passes.passes.thresholds.search import FloatPoints, SearchDomain
from onnx_passes.passes.thresholds.tail import Tail

_FAR = 2**60
_UNIT = 2.0**-51


Change = Literal["times", "plus", "at_least", "at_most"]


class TailStep(NamedTuple):
    """What a tail does next, with a number for each channel."""

    change: Change
    numbers: Reals


class Lines:
    """The channels of a tail, each of which is a straight line between bounds."""

    def __init__(self, steps: Sequence[TailStep], layout: tuple[int, ...]) -> None:
        self._steps = steps
        self._layout = layout
        self._lines: dict[int, _Line] = {}
        self._band = _Band.of(steps, layout)

    @staticmethod
    def of(tail: Tail, nodes: Sequence[ir.Node]) -> Lines | None:
        """Read the first nodes of a tail; None if they compute anything else than lines between bounds."""
        arithmetic, computed = _LineSteps(len(tail.layout)), {tail.base: _Steps(None)}
        last = tail.base
        try:
            for node in nodes:
                last = node.outputs[0]
                computed[last] = apply(arithmetic, node, computed)
        except (UnknownOperatorError, ArithmeticError):
            return None
        found = computed[last]
        return Lines(found.steps, tail.layout) if found.constant is None else None

    def falling(self, domain: SearchDomain, edges: Sequence[Edge]) -> np.ndarray:
        """Tell which channels fall somewhere in a domain."""
        down = self._band.slopes() < 0
        if not down.any():
            return down
        mirrored = domain.mirrored(down)
        first = self.first_points(mirrored, down, edges)
        return down & ((first > mirrored.low[:, None]) & (first <= mirrored.high[:, None])).any(axis=1)

    def first_points(self, domain: SearchDomain, turned: np.ndarray, edges: Sequence[Edge]) -> np.ndarray:
        """Return the first points, by number, at which each channel passes each edge; the one behind all if none does.

        Channels that are ``turned`` are read from the other side; others that fall never change within the domain.
        """
        floats = isinstance(domain, FloatPoints)
        first, sure = self._band.first(edges, turned, floats=floats)
        still = (self._band.slopes() < 0) & ~turned
        for channel, level in zip(*np.nonzero(~sure | still[:, None]), strict=True):
            line = self._line(int(channel))
            if turned[channel]:
                line = replace(line, scale=-line.scale)
            elif still[channel]:
                point = float(domain.points(domain.low[[channel]])[0])
                line = replace(line, scale=Fraction(0), bias=line.scale * Fraction(point) + line.bias)
            crossing = line.crossing(edges[int(level)])
            first[channel, level] = _first_float(*crossing) if floats else _first_integer(*crossing)
        return np.clip(first, domain.low[:, None], domain.high[:, None] + 1)

    def _line(self, channel: int) -> _Line:
        if channel not in self._lines:
            index = [int(at) for at in np.unravel_index(channel, self._layout)] if self._layout else []
            line = _Line()
            for step in self._steps:
                line = getattr(line, step.change)(step.numbers.at(index))
            self._lines[channel] = line
        return self._lines[channel]


@dataclass(frozen=True)
class _Line:
    """``min(max(scale * x + bias, low), high)``, without rounding; a bound that is left out is none."""

    scale: Number = Fraction(1)
    bias: Number = Fraction(0)
    low: Number | None = None
    high: Number | None = None

    def times(self, factor: Number) -> _Line:
        low, high = (None if end is None else end * factor for end in (self.low, self.high))
        return _Line(self.scale * factor, self.bias * factor, *((low, high) if factor > 0 else (high, low)))

    def plus(self, number: Number) -> _Line:
        low, high = (None if end is None else end + number for end in (self.low, self.high))
        return _Line(self.scale, self.bias + number, low, high)

    def at_least(self, number: Number) -> _Line:
        high = None if self.high is None else max(self.high, number)
        return replace(self, low=number if self.low is None else max(self.low, number), high=high)

    def at_most(self, number: Number) -> _Line:
        low = None if self.low is None else min(self.low, number)
        return replace(self, high=number if self.high is None else min(self.high, number), low=low)

    def crossing(self, edge: Edge) -> tuple[Number | float, bool]:
        """Return where it passes an edge as x grows, and whether it does so there; its scale is not negative."""
        everywhere = self.bias if not self.scale else self.low
        if everywhere is not None and edge.is_passed(self._bounded(everywhere)):
            return -math.inf, True
        if not self.scale or (self.high is not None and not edge.is_passed(self.high)):
            return math.inf, True
        return (edge.at - self.bias) / self.scale, edge.closed

    def _bounded(self, number: Number) -> Number:
        number = number if self.low is None else max(number, self.low)
        return number if self.high is None else min(number, self.high)


@dataclass(frozen=True)
class _Ends:
    """Bounds of all channels in doubles, infinite where there are none, and how far these may be off."""

    near: np.ndarray
    slack: np.ndarray

    def times(self, factor: Reals) -> _Ends:
        with np.errstate(invalid="ignore"):
            near = np.where(factor.near == 0, 0.0, self.near * factor.near)
            size = np.where(np.isinf(self.near), 0.0, np.abs(self.near))
        slack = size * (factor.slack + np.abs(factor.near) * _UNIT)
        return _Ends(near, slack + self.slack * (np.abs(factor.near) + factor.slack))

    def plus(self, number: Reals) -> _Ends:
        near = self.near + number.near
        lost = np.where(np.isinf(near), 0.0, np.abs(near)) * _UNIT
        return _Ends(
            near, np.where((number.near == 0) & (number.slack == 0), self.slack, self.slack + number.slack + lost)
        )

    def bounded(self, choose: np.ufunc, number: Reals) -> _Ends:
        near = choose(self.near, number.near)
        taken = np.where(near == self.near, self.slack, number.slack)
        unclear = np.abs(self.near - number.near) <= self.slack + number.slack
        return _Ends(near, np.where(unclear, np.maximum(self.slack, number.slack), taken))


@dataclass(frozen=True)
class _Band:
    """All channels in doubles: lines, their bounds, and the shape of the channels."""

    scale: Reals
    bias: Reals
    low: _Ends
    high: _Ends
    layout: tuple[int, ...]

    @staticmethod
    def of(steps: Sequence[TailStep], layout: tuple[int, ...]) -> _Band:
        rank, none = len(layout), np.zeros((1,) * len(layout))
        band = _Band(
            Reals.ones(rank), Reals.zeros(rank), _Ends(none - np.inf, none), _Ends(none + np.inf, none), layout
        )
        for step in steps:
            band = getattr(band, step.change)(step.numbers)
        return band

    def times(self, factor: Reals) -> _Band:
        low, high, down = self.low.times(factor), self.high.times(factor), factor.near < 0
        ends = [
            _Ends(np.where(down, there.near, here.near), np.where(down, there.slack, here.slack))
            for here, there in ((low, high), (high, low))
        ]
        return _Band(self.scale * factor, self.bias * factor, ends[0], ends[1], self.layout)

    def plus(self, number: Reals) -> _Band:
        return replace(self, bias=self.bias + number, low=self.low.plus(number), high=self.high.plus(number))

    def at_least(self, number: Reals) -> _Band:
        low, high = (ends.bounded(np.maximum, number) for ends in (self.low, self.high))
        return replace(self, low=low, high=high)

    def at_most(self, number: Reals) -> _Band:
        low, high = (ends.bounded(np.minimum, number) for ends in (self.low, self.high))
        return replace(self, low=low, high=high)

    def slopes(self) -> np.ndarray:
        """Return the sign of each channel's scale."""
        return self._flat(self.scale.signs()).reshape(-1)

    def first(self, edges: Sequence[Edge], turned: np.ndarray, *, floats: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return the first point of each channel that passes each edge, and where that is sure."""
        at, closed = np.array([float(edge.at) for edge in edges]), np.array([edge.closed for edge in edges])
        scale = np.where(turned[:, None], -1.0, 1.0) * self._flat(self.scale.near)
        bias, off = self._flat(self.bias.near), self._flat(self.bias.slack)
        least = np.abs(scale) - self._flat(self.scale.slack)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            place = (at - bias) / scale
            slack = (off + (np.abs(at) + np.abs(bias)) * _UNIT + np.abs(place) * self._flat(self.scale.slack)) / least
            slack = slack + np.abs(place) * _UNIT
            sure = (least > 0) & (np.abs(place) < _FAR)
            place = np.where(sure, place, 0.0)
            first, near = _floats(place) if floats else _integers(place, closed)
            sure &= np.abs(place - near) > slack
        for ends, far, passes in ((self.low, -_FAR, True), (self.high, _FAR, False)):
            beyond = self._flat(ends.near) - at
            outside = beyond > 0 if passes else beyond < 0
            known = np.abs(beyond) > self._flat(ends.slack)
            first = np.where(outside & known, far, first)
            sure = (sure | (outside & known)) & known
        return first, sure

    def _flat(self, array: np.ndarray) -> np.ndarray:
        return np.broadcast_to(array, self.layout).reshape(-1, 1)


def _integers(place: np.ndarray, closed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first integers from places on, and the nearest ones."""
    return np.where(closed, np.ceil(place), np.floor(place) + 1).astype(np.int64), np.rint(place)


def _floats(place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first floats from places on, by their number in the order of all, and the nearest ones."""
    near = place.astype(np.float32)
    after = np.where(near < place, np.nextafter(near, np.float32(np.inf)), near)
    size = np.abs(after).view(np.int32).astype(np.int64)
    return np.where(after < 0, -size, size), near.astype(np.float64)


def _first_integer(at: Number | float, closed: bool) -> int:
    if isinstance(at, float):
        return int(math.copysign(_FAR, at))
    return min(max(math.ceil(at) if closed else math.floor(at) + 1, -_FAR), _FAR)


def _first_float(at: Number | float, closed: bool) -> int:
    """Return the place of a float in the order of all of them."""
    near = np.float32(at) if isinstance(at, float) else next_float(at, above=not closed)
    size = int(np.abs(near).view(np.int32))
    return -size if near < 0 else size


@dataclass(frozen=True)
class _Steps:
    """A constant of each channel, or what a tail does to its base one step after the other."""

    constant: Reals | None
    steps: tuple[TailStep, ...] = ()

    def then(self, change: Change, other: _Steps) -> _Steps:
        """Return the steps, and one more with a constant."""
        if other.constant is None:
            raise UnknownOperatorError("two values that are computed make no line")
        return _Steps(None, (*self.steps, TailStep(change, other.constant)))

    def _commuting(self, change: Change, other: _Steps) -> _Steps:
        return self.then(change, other) if self.constant is None else other.then(change, self)

    def __add__(self, other: _Steps) -> _Steps:
        return self._commuting("plus", other)

    def __mul__(self, other: _Steps) -> _Steps:
        return self._commuting("times", other)

    def __neg__(self) -> _Steps:
        if self.constant is not None:
            return _Steps(-self.constant)
        return self.then("times", _Steps(Reals.of(-1.0)))

    def __sub__(self, other: _Steps) -> _Steps:
        return self + -other

    def __truediv__(self, other: _Steps) -> _Steps:
        if other.constant is None or not other.constant.near.all():
            raise UnknownOperatorError("a quotient by a value that is computed, or zero, is no line")
        return self * _Steps(Reals.ones(other.constant.ndim) / other.constant)

    def __abs__(self) -> _Steps:
        raise UnknownOperatorError("an absolute value is no line")


class _LineSteps(Arithmetic[_Steps]):
    """Records the steps of straight lines between bounds; everything else is refused."""

    def __init__(self, rank: int) -> None:
        self._rank = rank

    def of(self, numbers: Reals) -> _Steps:
        """Return a constant."""
        return _Steps(numbers.spread(self._rank))

    def number(self, number: Number) -> _Steps:
        """Return a constant."""
        return self.of(Reals.each([number]).reshape() if number else Reals.zeros(self._rank))

    def greater(self, a: _Steps, b: _Steps) -> _Steps:
        """Bound a line from below."""
        return a.then("at_least", b) if a.constant is None else b.then("at_least", a)

    def lesser(self, a: _Steps, b: _Steps) -> _Steps:
        """Bound a line from above."""
        return a.then("at_most", b) if a.constant is None else b.then("at_most", a)

    def growing(self, name: str, x: _Steps) -> _Steps:
        """Refuse curves."""
        raise UnknownOperatorError(f"{name} is no line")

    def rounded(self, mode: str, x: _Steps) -> _Steps:
        """Refuse steps."""
        raise UnknownOperatorError("rounding is no line")

    def reached(self, x: _Steps, thresholds: _Steps, weights: _Steps) -> _Steps:
        """Refuse steps."""
        raise UnknownOperatorError("thresholds are no line")
