"""Show that two models differ by levels that flipped at ties, and by nothing else.

Both models are run with every level forced to the one that the first model chose. What lies between the levels then
reads the same values in both, so that it must agree within rounding: each level that the second model would have chosen
is that of the first, or lies across an edge that is no further away than rounding can move what is decided by; and the
outputs agree within the tolerance. If this holds, the models compute the same but for these ties, whatever the levels
behind them make of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.graph.constants import is_constant
from onnx_passes.verify.comparison.bounds import share_of_bound
from onnx_passes.verify.comparison.noise import rounding_bounds
from onnx_passes.verify.comparison.promise import Limits
from onnx_passes.verify.comparison.ulp import Array
from onnx_passes.verify.run.execute import ExecutionError, Executor, Sample
from onnx_passes.verify.run.infer_types import infer_types
from onnx_passes.verify.ties.decisions import (
    LevelChoices,
    decide_alike,
    decisions_of,
    last_places,
    moved_inputs,
    not_below_last_places,
    quantized_constants,
    values_behind,
)
from onnx_passes.verify.ties.exact import Exact, UnknownError
from onnx_passes.verify.ties.forcing import BehindLevels, computed_values, given, with_given_levels

Choice = tuple[ir.Node, Array, Array]
"""A node, the least and the greatest level that it may choose."""

_SAME = 2.0**-20
"""Levels this close in proportion are one: their scale may be multiplied in another order."""
_MOST_ASKED = 32
"""At so many places of a sample exact arithmetic is asked."""


@dataclass(frozen=True)
class Ties:
    """Levels that flipped, of how many, and which part of the tolerance the outputs use up apart from them.

    ``new_is_right`` and ``old_is_right`` count those that exact arithmetic decides, as far as it was asked.
    """

    flipped: int = 0
    levels: int = 0
    share: float = 0.0
    new_is_right: int = 0
    old_is_right: int = 0

    def __str__(self) -> str:
        text = f"{self.flipped} of {self.levels} levels flipped at ties"
        if known := self.new_is_right + self.old_is_right:
            right = f"the new level is right at {self.new_is_right}, the old one at {self.old_is_right}"
            text += f" (in exact arithmetic {right}" + (")" if known == self.flipped else f" of {known} looked at)")
        return text


class UnexplainedError(Exception):
    """A difference that ties do not explain."""


def explain(
    before: ir.Model,
    after: ir.Model,
    successors: Mapping[str, ir.Value],
    samples: Sequence[Sample],
    limits: Limits,
    executor: Executor,
) -> Ties:
    """Show that a model differs from an earlier version only by ties, on samples; ``successors`` links their values.

    Raises UnexplainedError if it cannot be shown.
    """
    chosen = {
        node: value
        for node in decisions_of(before.graph)
        if (value := next((v for v in values_behind(node) if v.name in successors), None)) is not None
    }
    if not chosen:
        raise UnexplainedError("nothing in it rounds or compares what is computed")
    try:
        original = _Original(before, chosen, samples, executor)
        forced = with_given_levels(after, {name: successors[name] for name in original.names}, original.runs[0])
        ready = executor.prepare(forced, also=_values(forced, chosen, successors), engine="onnxruntime")
        runs = [ready.run(sample | levels) for sample, levels in zip(samples, original.levels(), strict=True)]
    except (ExecutionError, ModelError) as error:
        raise UnexplainedError(str(error)) from error
    ties = [original.compare(number, run, successors, limits) for number, run in enumerate(runs)]
    return Ties(
        sum(tie.flipped for tie in ties),
        sum(tie.levels for tie in ties),
        max(tie.share for tie in ties),
        sum(tie.new_is_right for tie in ties),
        sum(tie.old_is_right for tie in ties),
    )


class _Original:
    """The first model: which levels it chose by what, and how far rounding may move that.

    ``chosen`` maps each node that decides to the value that is taken for its level.
    """

    def __init__(
        self, model: ir.Model, chosen: Mapping[ir.Node, ir.Value], samples: Sequence[Sample], executor: Executor
    ) -> None:
        # Exact arithmetic asks for shapes, which a model need not have.
        infer_types(model)
        nodes = list(chosen)
        self.chosen, self._model, self._samples, self._executor = chosen, model, samples, executor
        self.outputs = [str(value.name) for value in model.graph.outputs]
        self._inputs = [name for name in samples[0] if name in {value.name for value in model.graph.inputs}]
        self.names = [str(value.name) for value in chosen.values()]
        read = [value for node in nodes for value in node.inputs if value is not None and not is_constant(value)]
        computed = list(dict.fromkeys(value for value in read if value.producer() is not None))
        also = dict.fromkeys([*computed, *(node.outputs[0] for node in nodes), *chosen.values()])
        feeds = set(samples[0]) if samples else None
        ready = executor.prepare(model, also=list(also), engine="onnxruntime", feeds=feeds)
        self._constants = quantized_constants(nodes)
        self.runs = [self._constants | sample | ready.run(sample) for sample in samples]
        self.bounds = self._bounds(model, samples, executor)
        self._levels = LevelChoices(model, nodes, self.runs[0], executor)

    def levels(self) -> list[Sample]:
        """Return the levels that were chosen, as they are fed to a model in which they are forced."""
        return [given({name: run[name] for name in self.names}) for run in self.runs]

    def _bounds(self, model: ir.Model, samples: Sequence[Sample], executor: Executor) -> list[Sample]:
        known = computed_values(model)
        forced = with_given_levels(model, {name: known[name] for name in self.names}, self.runs[0])
        computed = computed_values(forced)
        moved = [str(value.name) for node in self.chosen for value in moved_inputs(node)]
        names = dict.fromkeys([*moved, *(str(value.name) for value in forced.graph.outputs)])
        wanted = [computed[name] for name in names if name in computed]
        fed = [sample | levels for sample, levels in zip(samples, self.levels(), strict=True)]
        found = rounding_bounds(forced, wanted, fed, executor)
        if found is None:
            raise UnexplainedError("how far rounding moves its values cannot be measured")
        pairs = zip(self.runs, found, strict=True)
        return [last_places(self._constants) | not_below_last_places(run, bounds) for run, bounds in pairs]

    def compare(self, number: int, run: Sample, successors: Mapping[str, ir.Value], limits: Limits) -> Ties:
        """Compare a forced run of the second model on a sample. Raises UnexplainedError."""
        values, bounds = self.runs[number], self.bounds[number]
        flipped = levels = 0
        places: dict[str, np.ndarray] = {}
        around = self._around(number)
        inside: dict[str, list[str]] = {}
        for name, (node, low, high) in around.items():
            found = run[str(successors[name].name)]
            try:
                flips = flips_at_ties(name, values[name], found, low, high)
            except UnexplainedError:
                inside[name] = taken_in(self.chosen[node], successors)
                if not inside[name]:
                    raise
                flips = flips_at_ties(name, values[name], found, *self._through(number, node, inside[name], around))
            flipped, levels = flipped + int(flips.sum()), levels + flips.size
            places[name] = flips
            for old, new in _decided_by(node, successors[name].producer()) if flips.any() else ():
                moved = np.abs(run[new].astype(np.float64) - values[old].astype(np.float64))
                if (moved > 2 * bounds.get(old, np.zeros(())))[np.broadcast_to(flips, moved.shape)].any():
                    raise UnexplainedError(f"levels of {name} differ by more than rounding of what they are chosen by")
        share = 0.0
        for name in [name for name in self.outputs if name not in self.names]:
            expected, found = values[name], run[name]
            if expected.dtype != found.dtype or expected.shape != found.shape:
                raise UnexplainedError(f"{name} is of another type or shape")
            bound = limits.of(expected.dtype)
            shares = share_of_bound(expected, found, bound.atol, bound.rtol, bounds.get(name, 0.0))
            share = max(share, float(shares.max(initial=0.0)))
        if share > 1:
            raise UnexplainedError("with all levels forced to those of the original the outputs still differ")
        found = {name: run[str(successors[name].name)] for name in places}
        return Ties(flipped, levels, share, *self._who_is_right(values, found, places, inside))

    def _around(self, number: int) -> dict[str, Choice]:
        """Return the least and the greatest level that nodes choose on a sample, by name of what is taken for it."""
        values = self.runs[number]
        found = {node: (low, high) for node, low, high in self._levels.around(values, self.bounds[number])}
        further = {node: value for node, value in self.chosen.items() if value is not node.outputs[0]}
        if further:
            names = {node: str(node.outputs[0].name) for node in further}
            behind = BehindLevels(self._model, list(names.values()), list(further.values()), values, self._executor)
            low, high = ({names[node]: found[node][side] for node in further} for side in (0, 1))
            between = behind.between(self._samples[number], low, high)
            found |= {node: between[str(value.name)] for node, value in further.items()}
        return {str(value.name): (node, *found[node]) for node, value in self.chosen.items()}

    def _through(
        self, number: int, node: ir.Node, inner: Sequence[str], around: Mapping[str, Choice]
    ) -> tuple[Array, Array]:
        """Return what a node may choose if levels before it flip at ties of their own."""
        name, values = str(self.chosen[node].name), self.runs[number]
        behind = BehindLevels(self._model, inner, [self.chosen[node]], values, self._executor)
        low = {each: around[each][1] for each in inner}
        high = {each: around[each][2] for each in inner}
        least, greatest = behind.between(self._samples[number], low, high)[name]
        return np.minimum(least, around[name][1]), np.maximum(greatest, around[name][2])

    def _who_is_right(
        self, values: Sample, found: Sample, places: Mapping[str, np.ndarray], inside: Mapping[str, Sequence[str]]
    ) -> tuple[int, int]:
        """Count where exact arithmetic chooses the new level, and where the old one."""
        known = {name: values[name] for name in (*self._inputs, *self.names)}
        new = old = 0
        left = _MOST_ASKED
        for node, level_value in self.chosen.items():
            name, (value, *others) = str(level_value.name), moved_inputs(node)
            if others or not places[name].any() or values[str(value.name)].shape != places[name].shape:
                continue
            open_ones = {name, *inside.get(name, ())}
            exact = Exact({each: array for each, array in known.items() if each not in open_ones})
            for at in map(tuple, np.argwhere(places[name])[:left].tolist()):
                left -= 1
                try:
                    is_level = level_value is node.outputs[0]
                    level = exact.level(node, at) if is_level else float(exact.element(level_value, at))
                except UnknownError:
                    continue
                new += bool(np.isclose(level, found[name][at], rtol=_SAME, atol=0))
                old += bool(np.isclose(level, values[name][at], rtol=_SAME, atol=0))
        return new, old


def taken_in(level: ir.Value, successors: Mapping[str, ir.Value]) -> list[str]:
    """Name the levels before one that what stands for it does not read any more: it is chosen in their place."""
    before, after = (_names_before(value) for value in (level, successors[str(level.name)]))
    return [name for name, value in successors.items() if name in before and str(value.name) not in after]


def _names_before(value: ir.Value) -> set[str]:
    """Name all values that one is computed from."""
    found, waiting = set[ir.Value](), [value]
    while waiting:
        producer = waiting.pop().producer()
        new = [v for v in (() if producer is None else producer.inputs) if v is not None and v not in found]
        found.update(new)
        waiting.extend(new)
    return {str(each.name) for each in found}


def _decided_by(old: ir.Node, new: ir.Node | None) -> list[tuple[str, str]]:
    """Pair what two nodes choose levels by, where they choose alike and it is of one shape."""
    if new is None or not decide_alike(old, new):
        return []
    pairs = zip(moved_inputs(old), moved_inputs(new), strict=True)
    return [(str(a.name), str(b.name)) for a, b in pairs if a.producer() is not None and b.producer() is not None]


def flips_at_ties(name: str, expected: np.ndarray, found: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Find the levels that are other than expected. Raises UnexplainedError where no tie allows it."""
    if expected.dtype != found.dtype or expected.shape != found.shape:
        raise UnexplainedError(f"{name} is of another type or shape")
    wide = np.float64
    a, b = expected.astype(wide), found.astype(wide)
    slack = _SAME * np.abs(a)
    flipped = ~((np.abs(a - b) <= slack) | (np.isnan(a) & np.isnan(b)) | (a == b))
    least, greatest = np.minimum(low.astype(wide), a) - slack, np.maximum(high.astype(wide), a) + slack
    if not ((least <= b) & (b <= greatest))[flipped].all():
        raise UnexplainedError(f"levels of {name} differ where nothing is near to an edge")
    return flipped


def _values(model: ir.Model, chosen: Mapping[ir.Node, ir.Value], successors: Mapping[str, ir.Value]) -> list[ir.Value]:
    """List what stands for levels in a model, and what they are chosen by."""
    found = {node: successors[str(value.name)] for node, value in chosen.items()}
    pairs = [pair for node, value in found.items() for pair in _decided_by(node, value.producer())]
    computed = computed_values(model)
    names = [*(str(value.name) for value in found.values()), *(new for _, new in pairs)]
    return [computed[name] for name in dict.fromkeys(names)]
