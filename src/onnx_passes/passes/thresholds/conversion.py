"""Put counting of thresholds in the place of a tail: found on the tail itself, for all that its base can be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.ranges import ranges_of
from onnx_passes.core.base import Pass
from onnx_passes.core.claims import Claim
from onnx_passes.fragment.fragment import SideBySide
from onnx_passes.graph.traits import traits_of
from onnx_passes.graph.wording import name_of
from onnx_passes.numbers.arithmetic import (
    Arithmetic,
    ExactArithmetic,
    IntervalArithmetic,
    Intervals,
    UnknownOperatorError,
)
from onnx_passes.numbers.range import UNKNOWN, Range
from onnx_passes.numbers.surds import exactly
from onnx_passes.passes.thresholds.levels import NOT_A_NUMBER, Levels, edges_of
from onnx_passes.passes.thresholds.lines import Lines
from onnx_passes.passes.thresholds.nodes import holds_integers, integers, is_thresholds
from onnx_passes.passes.thresholds.search import (
    FloatPoints,
    Function,
    Integers,
    SearchDomain,
    agrees_nearby,
    bisect,
    enumerate_steps,
)
from onnx_passes.passes.thresholds.signs import flipped_base, may_flip
from onnx_passes.passes.thresholds.tail import Tail, find_tails
from onnx_passes.passes.thresholds.writing import Counting, LevelSteps, is_exact, write
from onnx_passes.rewrite.editor import Editor
from onnx_passes.verify.run.execute import Executor


class FloatEvaluator:
    """Runs a tail in ONNX Runtime on chosen points of each channel: its results are what the model computes."""

    def __init__(self, tail: Tail, model: ir.Model, executor: Executor) -> None:
        self._channels = tail
        self._tail = SideBySide((tail,), model, executor, shapes=max(tail.rank, 1))

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Evaluate points of shape ``[channels, n]``; returns results of the same shape."""
        if not self._channels.rank:
            return self._run(points.reshape(-1)).reshape(points.shape)
        if self._channels.free is None:
            columns = [self._run(column.reshape(self._channels.layout)).reshape(-1) for column in points.T]
            return np.stack(columns, axis=1)
        return self._channels.unlaid(self._run(self._channels.laid(points)))

    def _run(self, points: np.ndarray) -> np.ndarray:
        return self._tail([np.ascontiguousarray(points, np.float32)])[0][0]


class RealEvaluator:
    """Tells on which level of a tail points of a channel are: by intervals of doubles, and exactly where these doubt.

    Raises UnknownOperatorError where an operator is not known, ArithmeticError where a number has no bounds.
    """

    def __init__(self, tail: Tail, levels: Levels) -> None:
        self._tail = tail
        self._levels = levels
        self._layout = tail.layout
        self(np.zeros((tail.channels, 1), np.float32))

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Return the levels of points of shape ``[channels, n]``, by number."""
        wide = points.astype(np.float64).reshape(*self._layout, -1)
        with np.errstate(all="ignore"):
            found = self._run(IntervalArithmetic(), Intervals(wide, wide))
            ends = [np.rint((end - self._levels.bias) / self._levels.scale) for end in (found.low, found.high)]
        low, high = (np.broadcast_to(end, wide.shape).reshape(points.shape) for end in ends)
        doubts = ~(low == high)
        places = np.where(doubts, 0, low).astype(np.int64)
        for channel in np.flatnonzero(doubts.any(axis=1)):
            places[channel, doubts[channel]] = self._exact(int(channel), points[channel, doubts[channel]])
        return places

    def _exact(self, channel: int, points: np.ndarray) -> list[int]:
        arithmetic = ExactArithmetic(tuple(int(at) for at in np.unravel_index(channel, self._layout or (1,))))
        results = self._run(arithmetic, exactly(points))
        bias, scale = Fraction(float(self._levels.bias)), Fraction(float(self._levels.scale))
        return [round((number - bias) / scale) for number in np.broadcast_to(results, points.shape)]

    def _run(self, arithmetic: Arithmetic[Any], points: Any) -> Any:
        return self._tail.evaluate(arithmetic, {self._tail.base: points})[self._tail.result]


_RULE = "thresholds of a tail"
_MOST_POINTS = 2**24
"""So many evaluations are made, at most, of a function that is not monotone."""
_MOST_COMPARISONS = 2**26
_CHOICES = frozenset({"Abs", "Clip", "GlobalMaxPool", "Max", "MaxPool", "Min", "Neg", "ReduceMax", "ReduceMin", "Relu"})
"""Operators that return one of their inputs, or minus it, as it is."""


@dataclass(frozen=True)
class End:
    """The node that a tail ends with, the levels that it yields, and of how many nodes the tail must be.

    Of a tail ``by_channel`` parameters do not differ from element to element.
    """

    node: ir.Node
    levels: Levels
    shortest: int = 1
    by_channel: bool = False

    def takes(self, tail: Tail) -> bool:
        """Tell whether a tail is one that is wanted."""
        return len(tail.nodes) >= self.shortest and not (self.by_channel and tail.is_by_element)


Semantics = Literal["exact", "float"]
"""What a tail means: the real numbers that its constants stand for, or what floats make of them."""


def promise_of_semantics(pass_: Pass, semantics: Semantics) -> None:
    """Let a pass promise equality if it keeps to what floats compute; levels may flip at ties if it does not."""
    if semantics == "float":
        vars(pass_)["claims"] = (Claim("equality"),)


def convert_all(
    model: ir.Model,
    editor: Editor,
    nodes: Sequence[ir.Node],
    end_of: Callable[[ir.Node], End | str],
    semantics: Semantics,
) -> None:
    """Convert nodes in the order of the graph: each makes integers known to the next."""
    conversion = _Conversion(model, editor, semantics) if nodes else None
    for node in nodes:
        assert conversion is not None
        end = end_of(node)
        reason = end if isinstance(end, str) else conversion.convert(end)
        if editor.stopped:
            return
        if reason:
            editor.refuse(_RULE, reason, node)
            editor.context.note(f"{name_of(node)} stays: {reason}")


class _Conversion:
    def __init__(self, model: ir.Model, editor: Editor, semantics: Semantics) -> None:
        self._model = model
        self._semantics = semantics
        self._doubt = ""
        self._editor = editor
        self._ranges = dict(ranges_of(model))
        self._executor = Executor()
        self._places = {node: place for place, node in enumerate(model.graph)}

    def convert(self, end: End) -> str:
        """Replace the longest tail that ends at a node; returns why not, or nothing.

        Tails that begin at integers are preferred.
        """
        tails, reason = find_tails(end.node, self._places.__getitem__)
        tails = [tail for tail in tails[::-1] if end.takes(tail)]
        reasons: list[str] = []
        for tail in sorted(tails, key=lambda tail: not self._is_integer(tail.base)):
            reasons.append(self._convert(tail, end.levels))
            if not reasons[-1] or self._editor.stopped:
                return ""
        return reasons[0] if reasons else reason or "nothing is before it"

    def _convert(self, tail: Tail, levels: Levels) -> str:
        if reason := self._editor.objection(tail.nodes):
            return reason
        domain = self._domain(tail)
        if isinstance(domain, str):
            return domain
        self._doubt = ""
        found = self._search(tail, domain, levels)
        if isinstance(found, str):
            return found
        if isinstance(found, LevelSteps) and not is_exact(found, levels):
            return "its steps do not add up exactly"
        name = name_of(tail.nodes[-1])
        reason = self._replace(tail, found, levels)
        if self._semantics == "exact" and not reason:
            rounding = self._rounded_before(tail.base)
            doubt = self._doubt if rounding is None else f"{name_of(rounding)} before it rounds to floats"
            if doubt:
                self._editor.context.note(f"{name} is not exact: {doubt}")
        return reason

    def _rounded_before(self, base: ir.Value) -> ir.Node | None:
        """Return the last node before a tail whose result floats may have rounded."""
        waiting, seen = [base], set[ir.Value]()
        while waiting:
            value = waiting.pop()
            node, known = value.producer(), self._ranges.get(value)
            if node is None or value in seen or (known is not None and known.grid is not None and known.grid.exact):
                continue
            seen.add(value)
            traits = traits_of(node)
            if traits.kind != "movement" and node.op_type not in _CHOICES and not is_thresholds(node):
                return node
            waiting += [given for given in node.inputs if given is not None and given.dtype == value.dtype]
        return None

    def _replace(self, tail: Tail, found: Counting | LevelSteps, levels: Levels) -> str:
        end, base, before = tail.nodes[-1], tail.base, tail.base.producer()
        turned = found if isinstance(found, Counting) and found.falling is not None else None
        known = self._ranges.get(tail.result, UNKNOWN)
        matched = tail.nodes if turned is None or before is None else (before, *tail.nodes)
        with self._editor.rewrite(_RULE, end, matched=matched) as r:
            if turned is not None:
                base = flipped_base(r.op, tail, turned)
            new = base if _is_identity(found, levels) else write(r.op, base, tail, found, levels)
            r.replace(tail.result, new)
        if not r.applied:
            return self._editor.stopped or "its thresholds cannot take its place"
        self._places.update(dict.fromkeys(r.op.nodes, self._places[end]))
        if new is not base:
            self._ranges[new] = known
        if turned is not None:
            self._ranges[base] = _range(turned.domain, tail.layout)
        return ""

    def _is_integer(self, value: ir.Value) -> bool:
        return holds_integers(self._ranges.get(value))

    def _domain(self, tail: Tail) -> SearchDomain | str:
        if not self._is_integer(tail.base):
            return FloatPoints.all(tail.channels)
        within = integers(self._ranges.get(tail.base), tail.layout)
        return within if isinstance(within, str) else Integers(*within)

    def _search(self, tail: Tail, domain: SearchDomain, levels: Levels) -> Counting | LevelSteps | str:
        found = self._divide(tail, domain, levels) if self._semantics == "exact" else None
        return self._try_out(tail, domain, levels) if found is None else found

    def _divide(self, tail: Tail, domain: SearchDomain, levels: Levels) -> Counting | LevelSteps | None:
        """Find the thresholds of a tail whose channels are straight lines between bounds."""
        found = edges_of(tail, levels)
        lines = None if found is None else Lines.of(tail, found.before)
        if found is None or lines is None:
            return None
        falling = lines.falling(domain, found.edges)
        numbers = lines.first_points(domain.mirrored(falling), falling, found.edges)
        return _counted(tail, domain, falling, numbers, levels)

    def _try_out(self, tail: Tail, domain: SearchDomain, levels: Levels) -> Counting | LevelSteps | str:
        """Search the steps of a tail by trying out points."""
        if self._semantics == "exact":
            try:
                return self._steps(tail, domain, levels, RealEvaluator(tail, levels), tail.is_nearly_monotone)
            except (UnknownOperatorError, ArithmeticError) as error:
                self._doubt = str(error)
        evaluate = FloatEvaluator(tail, self._model, self._executor)
        return self._steps(tail, domain, levels, lambda points: levels.places(evaluate(points)), tail.is_monotone)

    def _steps(
        self, tail: Tail, domain: SearchDomain, levels: Levels, function: Function, is_monotone: bool
    ) -> Counting | LevelSteps | str:
        points = int((domain.high - domain.low).max() + 1) * domain.low.size
        look_at_all = not is_monotone and points <= _MOST_POINTS
        if not look_at_all and not tail.is_nearly_monotone:
            return f"it goes up and down, and has too many inputs ({points}) to look at each"
        if look_at_all:
            return _enumerate(domain, function, levels)
        return self._bisect(tail, domain, levels, function, is_monotone)

    def _bisect(
        self, tail: Tail, domain: SearchDomain, levels: Levels, function: Function, is_monotone: bool
    ) -> Counting | LevelSteps | str:
        ends = function(domain.points(np.stack([domain.low, domain.high], axis=1)))
        falling = ends[:, 0] > ends[:, 1]
        sign = np.where(falling, -1, 1)[:, None]
        mirrored = domain.mirrored(falling)

        def growing(points: np.ndarray) -> np.ndarray:
            return function(points * sign.astype(np.float32))

        wanted = np.arange(1, levels.steps + 1)
        numbers = bisect(growing, mirrored, wanted)
        if not is_monotone and not agrees_nearby(growing, mirrored, wanted, numbers):
            return "it goes up and down near a step, in its last bits"
        return _counted(tail, domain, falling, numbers, levels)


def _counted(
    tail: Tail, domain: SearchDomain, falling: np.ndarray, numbers: np.ndarray, levels: Levels
) -> Counting | LevelSteps:
    """Say what thresholds count, which were found for channels turned around where they are falling."""
    if not falling.any():
        return Counting(domain.points(numbers), domain)
    if may_flip(tail):
        mirrored = domain.mirrored(falling)
        return Counting(mirrored.points(numbers), mirrored, falling)
    # Where it falls, -x >= t says x <= -t: a step down at the next point.
    at, sign = np.where(falling[:, None], 1 - numbers, numbers), np.where(falling, -1, 1)[:, None]
    return LevelSteps(np.where(falling, levels.steps, 0), domain.points(at), sign * np.ones_like(numbers))


def _range(domain: SearchDomain, layout: tuple[int, ...]) -> Range:
    """Return what is known of a tensor that is turned around."""
    if not isinstance(domain, Integers):
        return UNKNOWN
    found = Range.integers(domain.low.reshape(layout), domain.high.reshape(layout))
    return Range(found.low, found.high, None if found.grid is None else replace(found.grid, exact=True))


def _is_identity(found: Counting | LevelSteps, levels: Levels) -> bool:
    """Tell whether counting gives back every integer as it is."""
    if isinstance(found, LevelSteps) or not isinstance(found.domain, Integers):
        return False
    low, high = found.domain.low[:, None], found.domain.high[:, None]
    width = int((high - low).max())
    if width > levels.steps or (width + 1) * found.thresholds.size > _MOST_COMPARISONS:
        return False
    points = np.minimum(low + np.arange(width + 1), high)
    reached = (points[:, :, None] >= found.thresholds[:, None, :]).sum(axis=2)
    return bool((levels.values[reached] == points).all())


def _enumerate(domain: SearchDomain, function: Function, levels: Levels) -> Counting | LevelSteps | str:
    steps = enumerate_steps(function, domain)
    lowest = np.minimum(steps.start, (steps.start[:, None] + np.cumsum(steps.jump, axis=1)).min(axis=1))
    if (lowest == NOT_A_NUMBER).any():
        return "it is no number for some inputs"
    if (steps.jump >= 0).all():
        return Counting(_spread(steps.start, steps.at, steps.jump, domain, levels), domain)
    return LevelSteps(steps.start, domain.points(steps.at), steps.jump)


def _spread(start: np.ndarray, at: np.ndarray, jump: np.ndarray, domain: SearchDomain, levels: Levels) -> np.ndarray:
    """Write steps upwards of any height as thresholds one level apart, from the lowest level to the highest."""
    rows: list[np.ndarray] = []
    for channel in range(len(start)):
        row = [*[domain.low[channel]] * int(start[channel]), *np.repeat(at[channel], jump[channel])]
        rows.append(np.array(row + [domain.high[channel] + 1] * (levels.steps - len(row)), np.int64))
    return domain.points(np.stack(rows))
