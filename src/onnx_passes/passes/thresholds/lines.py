"""Tails that are straight lines between bounds: their thresholds are quotients, exact in rational numbers.

``min(max(scale * x + bias, low), high)`` stays of that form whatever number is added, whatever it is multiplied with or
bounded by. A level that begins at ``e`` begins at ``(e - bias) / scale`` of x: the first integer, or float, from there
on is the threshold. Quotients are computed in doubles; those that lie too near to an integer, or to a float, for the
bounds of their error are computed again without rounding, from what constants stand for
(``analysis/exact/constants.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, NamedTuple

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.exact.arrays import next_float
from onnx_passes.analysis.exact.constants import meaning
from onnx_passes.analysis.exact.reals import Reals
from onnx_passes.analysis.exact.surd import Number
from onnx_passes.graph.constants import is_constant
from onnx_passes.ops.rounding import Edge
from onnx_passes.passes.thresholds.search import Domain, Floats
from onnx_passes.passes.thresholds.tail import Tail

_FAR = 2**60
_UNIT = 2.0**-51


class Step(NamedTuple):
    """What a tail does next, with a number for each channel."""

    change: Literal["times", "plus", "at_least", "at_most"]
    numbers: Reals


class Lines:
    """The channels of a tail, each of which is a straight line between bounds."""

    def __init__(self, steps: Sequence[Step], layout: tuple[int, ...]) -> None:
        self._steps = steps
        self._layout = layout
        self._lines: dict[int, _Line] = {}
        self._band = _Band.of(steps, layout)

    @staticmethod
    def of(tail: Tail, nodes: Sequence[ir.Node]) -> Lines | None:
        """Read the first nodes of a tail; nothing if they are anything else than lines between bounds."""
        value, steps = tail.base, list[Step]()
        for node in nodes:
            rule = _RULES.get(node.op_type) if node.domain == "" else None
            found = None if rule is None else rule(_Reader(node, value, len(tail.layout)))
            if found is None:
                return None
            value = node.outputs[0]
            steps += found
        return Lines(steps, tail.layout)

    def falling(self, domain: Domain, edges: Sequence[Edge]) -> np.ndarray:
        """Tell which channels fall somewhere in a domain."""
        down = self._band.slopes() < 0
        if not down.any():
            return down
        mirrored = domain.mirrored(down)
        first = self.first_points(mirrored, down, edges)
        return down & ((first > mirrored.low[:, None]) & (first <= mirrored.high[:, None])).any(axis=1)

    def first_points(self, domain: Domain, turned: np.ndarray, edges: Sequence[Edge]) -> np.ndarray:
        """Return the first points, by number, at which each channel passes each edge; the one behind all if none does.

        Channels that are ``turned`` are read from the other side; others that fall never change within the domain.
        """
        floats = isinstance(domain, Floats)
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
    def of(steps: Sequence[Step], layout: tuple[int, ...]) -> _Band:
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
class _Reader:
    """A node, the value of the tail that it reads, and the rank of the tensor."""

    node: ir.Node
    value: ir.Value
    rank: int

    def place(self) -> int | None:
        """Return which input the value is, if all others are constant."""
        inputs = self.node.inputs
        places = [place for place, value in enumerate(inputs) if value is not None and not is_constant(value)]
        return places[0] if len(places) == 1 and inputs[places[0]] is self.value else None

    def numbers(self, index: int) -> Reals | None:
        """Return what a constant stands for."""
        found = meaning(self.node.inputs[index]) if index < len(self.node.inputs) else None
        return None if found is None else found.spread(self.rank)

    def other(self) -> Reals | None:
        """Return what the other one of two inputs stands for."""
        place = self.place()
        return None if place is None else self.numbers(1 - place)


_Rule = Callable[[_Reader], "list[Step] | None"]


def _step(change: Literal["times", "plus"]) -> _Rule:
    def rule(reader: _Reader) -> list[Step] | None:
        number = reader.other()
        return None if number is None else [Step(change, number)]

    return rule


def _sub(reader: _Reader) -> list[Step] | None:
    number = reader.other()
    if number is None:
        return None
    return [Step("plus", -number)] if reader.place() == 0 else [*_neg(reader), Step("plus", number)]


def _neg(reader: _Reader) -> list[Step]:
    return [Step("times", -Reals.ones(reader.rank))]


def _div(reader: _Reader) -> list[Step] | None:
    number = reader.other() if reader.place() == 0 else None
    if number is None or not number.near.all():
        return None
    return [Step("times", Reals.ones(reader.rank) / number)]


def _relu(reader: _Reader) -> list[Step]:
    return [Step("at_least", Reals.zeros(reader.rank))]


def _clip(reader: _Reader) -> list[Step] | None:
    if reader.place() != 0 or reader.node.attributes:
        return None
    found: list[Step] = []
    changes: list[tuple[int, Literal["at_least", "at_most"]]] = [(1, "at_least"), (2, "at_most")]
    for index, change in changes:
        if index < len(reader.node.inputs) and reader.node.inputs[index] is not None:
            number = reader.numbers(index)
            if number is None:
                return None
            found.append(Step(change, number))
    return found


def _extreme(change: Literal["at_least", "at_most"]) -> _Rule:
    def rule(reader: _Reader) -> list[Step] | None:
        place = reader.place()
        numbers = [reader.numbers(index) for index in range(len(reader.node.inputs)) if index != place]
        found = [Step(change, number) for number in numbers if number is not None]
        return found if place is not None and len(found) == len(numbers) else None

    return rule


def _batch_normalization(reader: _Reader) -> list[Step] | None:
    node = reader.node
    given = [meaning(value) for value in node.inputs[1:5]]
    gamma, beta, mean, variance = given
    if gamma is None or beta is None or mean is None or variance is None or reader.place() != 0:
        return None
    spreads = variance + Reals.of(np.float32(node.attributes.get_float("epsilon", 1e-5)))
    if not (spreads.signs() > 0).all():
        return None
    changes: list[tuple[Literal["times", "plus"], Reals]]
    changes = [("plus", -mean), ("times", gamma / spreads.root()), ("plus", beta)]
    channels = (1, -1, *(1,) * (reader.rank - 2))
    return [Step(change, numbers.reshape(*channels)) for change, numbers in changes]


_RULES: dict[str, _Rule] = {
    "Add": _step("plus"),
    "BatchNormalization": _batch_normalization,
    "Clip": _clip,
    "Div": _div,
    "Identity": lambda reader: [],
    "Max": _extreme("at_least"),
    "Min": _extreme("at_most"),
    "Mul": _step("times"),
    "Neg": _neg,
    "Relu": _relu,
    "Sub": _sub,
}
