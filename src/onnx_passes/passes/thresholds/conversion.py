"""Put counting of thresholds in the place of a tail: found on the tail itself, for all that its base can be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.ranges.analyse import ranges_of
from onnx_passes.analysis.ranges.range import UNKNOWN, Range
from onnx_passes.graph.edits import remove_if_dead, replace_value
from onnx_passes.graph.names import Names
from onnx_passes.passes.thresholds.evaluator import Evaluator
from onnx_passes.passes.thresholds.levels import NOT_A_NUMBER, Levels
from onnx_passes.passes.thresholds.nodes import holds_integers, integers
from onnx_passes.passes.thresholds.search import (
    Domain,
    Floats,
    Function,
    Integers,
    agrees_nearby,
    bisect,
    enumerate_steps,
)
from onnx_passes.passes.thresholds.signs import flip_channels, may_flip
from onnx_passes.passes.thresholds.tail import Tail, find_tails
from onnx_passes.passes.thresholds.writing import Counting, Steps, is_exact, write
from onnx_passes.verify.execute import Executor

_MOST_POINTS = 2**24
"""So many evaluations are made, at most, of a function that is not monotone."""
_MOST_COMPARISONS = 2**26


class Conversion:
    """Converts tails of one model, in the order of its graph: each makes integers known to the next."""

    def __init__(self, model: ir.Model) -> None:
        self._model = model
        self._ranges = dict(ranges_of(model))
        self._executor = Executor()
        self._names = Names.of(model.graph)
        self._places = {node: place for place, node in enumerate(model.graph)}

    def convert(self, end: ir.Node, levels: Levels, shortest: int = 1) -> str:
        """Replace the longest tail that ends at a node, of so many nodes at least; returns why not, or nothing.

        Tails that begin at integers are preferred.
        """
        tails, reason = find_tails(end, self._places.__getitem__)
        tails = [tail for tail in tails[::-1] if len(tail.nodes) >= shortest]
        reasons: list[str] = []
        for tail in sorted(tails, key=lambda tail: not self._is_integer(tail.base)):
            reasons.append(self._convert(tail, levels))
            if not reasons[-1]:
                return ""
        return reasons[0] if reasons else reason or "nothing is before it"

    def _convert(self, tail: Tail, levels: Levels) -> str:
        domain = self._domain(tail)
        if isinstance(domain, str):
            return domain
        found = self._search(tail, domain, levels)
        if isinstance(found, str):
            return found
        if isinstance(found, Steps) and not is_exact(found, levels):
            return "its steps do not add up exactly"
        end = tail.nodes[-1]
        if _is_identity(found, levels):
            replace_value(end.outputs[0], tail.base, self._names)
        else:
            new = write(self._model, self._names, tail, found, levels)
            self._model.graph.insert_before(end, new)
            self._places[new] = self._places[end]
            self._ranges[new.outputs[0]] = self._ranges.get(end.outputs[0], UNKNOWN)
            replace_value(end.outputs[0], new.outputs[0], self._names)
        remove_if_dead([end])
        return ""

    def _is_integer(self, value: ir.Value) -> bool:
        return holds_integers(self._ranges.get(value))

    def _domain(self, tail: Tail) -> Domain | str:
        if not self._is_integer(tail.base):
            return Floats.all(tail.channels)
        within = integers(self._ranges.get(tail.base), tail.layout)
        return within if isinstance(within, str) else Integers(*within)

    def _search(self, tail: Tail, domain: Domain, levels: Levels) -> Counting | Steps | str:
        points = int((domain.high - domain.low).max() + 1) * domain.low.size
        look_at_all = not tail.is_monotone and points <= _MOST_POINTS
        if not look_at_all and not tail.is_nearly_monotone:
            return f"it goes up and down, and has too many inputs ({points}) to look at each"
        evaluate = Evaluator(tail, dict(self._model.opset_imports), self._executor)

        def function(points: np.ndarray) -> np.ndarray:
            return levels.places(evaluate(points))

        if look_at_all:
            return _enumerate(domain, function, levels)
        return self._bisect(tail, domain, function, levels)

    def _bisect(self, tail: Tail, domain: Domain, function: Function, levels: Levels) -> Counting | Steps | str:
        ends = function(domain.points(np.stack([domain.low, domain.high], axis=1)))
        falling = ends[:, 0] > ends[:, 1]
        sign = np.where(falling, -1, 1)[:, None]
        mirrored = domain.mirrored(falling)

        def growing(points: np.ndarray) -> np.ndarray:
            return function(points * sign.astype(np.float32))

        wanted = np.arange(1, levels.steps + 1)
        numbers = bisect(growing, mirrored, wanted)
        if not tail.is_monotone and not agrees_nearby(growing, mirrored, wanted, numbers):
            return "it goes up and down near a step, in its last bits"
        if not falling.any():
            return Counting(domain.points(numbers), domain)
        if may_flip(tail):
            flip_channels(self._model, self._names, tail, falling, mirrored)
            self._ranges[tail.base] = _range(mirrored, tail.layout)
            return Counting(mirrored.points(numbers), mirrored)
        # Where it falls, -x >= t says x <= -t: a step down at the next point.
        at = np.where(falling[:, None], 1 - numbers, numbers)
        return Steps(np.where(falling, levels.steps, 0), domain.points(at), sign * np.ones_like(numbers))


def _range(domain: Domain, layout: tuple[int, ...]) -> Range:
    """Return what is known of a tensor that is turned around."""
    if not isinstance(domain, Integers):
        return UNKNOWN
    found = Range.integers(domain.low.reshape(layout), domain.high.reshape(layout))
    return Range(found.low, found.high, None if found.grid is None else replace(found.grid, exact=True))


def _is_identity(found: Counting | Steps, levels: Levels) -> bool:
    """Tell whether counting gives back every integer as it is."""
    if isinstance(found, Steps) or not isinstance(found.domain, Integers):
        return False
    low, high = found.domain.low[:, None], found.domain.high[:, None]
    width = int((high - low).max())
    if width > levels.steps or (width + 1) * found.thresholds.size > _MOST_COMPARISONS:
        return False
    points = np.minimum(low + np.arange(width + 1), high)
    reached = (points[:, :, None] >= found.thresholds[:, None, :]).sum(axis=2)
    return bool((levels.values[reached] == points).all())


def _enumerate(domain: Domain, function: Function, levels: Levels) -> Counting | Steps | str:
    steps = enumerate_steps(function, domain)
    lowest = np.minimum(steps.start, (steps.start[:, None] + np.cumsum(steps.jump, axis=1)).min(axis=1))
    if (lowest == NOT_A_NUMBER).any():
        return "it is no number for some inputs"
    if (steps.jump >= 0).all():
        return Counting(_spread(steps.start, steps.at, steps.jump, domain, levels), domain)
    return Steps(steps.start, domain.points(steps.at), steps.jump)


def _spread(start: np.ndarray, at: np.ndarray, jump: np.ndarray, domain: Domain, levels: Levels) -> np.ndarray:
    """Write steps upwards of any height as thresholds one level apart, from the lowest level to the highest."""
    rows: list[np.ndarray] = []
    for channel in range(len(start)):
        row = [*[domain.low[channel]] * int(start[channel]), *np.repeat(at[channel], jump[channel])]
        rows.append(np.array(row + [domain.high[channel] + 1] * (levels.steps - len(row)), np.int64))
    return domain.points(np.stack(rows))
