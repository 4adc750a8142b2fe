"""Show that two models differ by levels that flipped at ties, and by nothing else.

The second model runs as it is. The first is run with every level given that the second one chose, so that what lies
between levels reads the same values in both and must agree within rounding: each level is that which the first model
chooses here, or lies across an edge that is no further away than rounding can move what is decided by; and the outputs
agree within the tolerance. If this holds, the second model computes what the first one does, but for these ties,
whatever the levels behind them make of it.

A level of the first model for which nothing stands in the second is chosen by the first one itself. Where rounding
lets it be one of several, what is decided behind it is looked at with the least and with the greatest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.graph.constants import is_constant
from onnx_passes.verify.comparison.evidence import Limits, share_of_bound
from onnx_passes.verify.comparison.noise import rounding_bounds
from onnx_passes.verify.comparison.ulp import Array
from onnx_passes.verify.run.element_types import infer_types
from onnx_passes.verify.run.execute import ExecutionError, Executor, Sample
from onnx_passes.verify.ties.decisions import (
    LevelChoices,
    Range,
    decide_alike,
    decisions_of,
    last_places,
    moved_inputs,
    not_below_last_places,
    quantized_constants,
    quantizes_constant,
    values_behind,
)
from onnx_passes.verify.ties.exact import Exact, Forced, UnknownError, names_before

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

    def __add__(self, other: Ties) -> Ties:
        """Add what was found on another sample, or behind another step: parts of the tolerance add up as well."""
        return Ties(*map(sum, zip(astuple(self), astuple(other), strict=True)))

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
    *,
    asks: bool = True,
) -> Ties:
    """Show that a model differs from an earlier version only by ties, on samples; ``successors`` links their values.

    Where a level flipped, exact arithmetic is asked who is right, unless it is not to be asked. Raises
    UnexplainedError if it cannot be shown.
    """
    chosen = {
        node: value
        for node in decisions_of(before.graph)
        if (value := next((v for v in values_behind(node) if v.name in successors), None)) is not None
    }
    if not chosen:
        raise UnexplainedError("no node rounds or compares computed values")
    outputs = {str(value.name): successors.get(str(value.name), value) for value in before.graph.outputs}
    try:
        ready = executor.prepare(after, also=_values(chosen, successors), engine="onnxruntime", feeds=set(samples[0]))
        runs = [ready.run(sample) for sample in samples]
        original = _Original(before, chosen, successors, samples, runs, executor)
    except (ExecutionError, ModelError) as error:
        raise UnexplainedError(str(error)) from error
    ties = [original.compare(number, outputs, limits, asks=asks) for number in range(len(runs))]
    return Ties(
        sum(tie.flipped for tie in ties),
        sum(tie.levels for tie in ties),
        max(tie.share for tie in ties),
        sum(tie.new_is_right for tie in ties),
        sum(tie.old_is_right for tie in ties),
    )


class _Original:
    """The first model, run with the levels given that the second one chose in ``runs``.

    ``chosen`` maps each node whose level is followed to the value that is taken for it. All others that decide about
    what is computed choose by themselves.
    """

    def __init__(
        self,
        model: ir.Model,
        chosen: Mapping[ir.Node, ir.Value],
        successors: Mapping[str, ir.Value],
        samples: Sequence[Sample],
        runs: Sequence[Sample],
        executor: Executor,
    ) -> None:
        # Exact arithmetic asks for shapes, which a model need not have.
        infer_types(model)
        self.chosen, self.runs, self._successors = chosen, runs, successors
        self._model, self._executor = model, executor
        self._inputs = [name for name in samples[0] if name in {value.name for value in model.graph.inputs}]
        self.names = [str(value.name) for value in chosen.values()]
        self._nodes = [node for node in decisions_of(model.graph) if node in chosen or not quantizes_constant(node)]
        self._taken_for = {node: chosen.get(node, node.outputs[0]) for node in self._nodes}
        constants = quantized_constants(self._nodes)
        given = [{name: run[str(successors[name].name)] for name in self.names} for run in runs]
        _require_types(chosen.values(), given[0])
        followed = Forced(model, chosen.values(), given[0], self._read(), executor)
        own = [followed.run(sample, levels) for sample, levels in zip(samples, given, strict=True)]
        alone = [value for node in self._nodes if node not in chosen for value in node.outputs if value.name]
        self._given = [
            levels | {str(value.name): run[str(value.name)] for value in alone}
            for levels, run in zip(given, own, strict=True)
        ]
        self._samples = samples
        self._forced = followed
        if alone:
            self._forced = Forced(model, [*chosen.values(), *alone], self._given[0], self._read(), executor)
        self._own = [constants | sample | run for sample, run in zip(samples, own, strict=True)]
        self._known = [run | levels for run, levels in zip(self._own, self._given, strict=True)]
        self._bounds = self._measured(constants)
        self._behind: dict[ir.Node, Forced] = {}
        self._levels = LevelChoices(model, self._nodes, self._known[0], executor)

    def _read(self) -> list[ir.Value]:
        """List what decisions read and choose, and the outputs."""
        read = [value for node in self._nodes for value in node.inputs if value is not None and not is_constant(value)]
        computed = [value for value in read if value.producer() is not None]
        levels = [value for node in self._nodes for value in (*node.outputs, self._taken_for[node]) if value.name]
        return list(dict.fromkeys([*computed, *levels, *self._model.graph.outputs]))

    def _measured(self, constants: Sample) -> list[Sample]:
        """Measure how far rounding moves what is decided by, and outputs, between levels that are given."""
        moved = [str(value.name) for node in self._nodes for value in moved_inputs(node)]
        names = dict.fromkeys([*moved, *(str(value.name) for value in self._model.graph.outputs)])
        model, wanted = self._forced.copied(names)
        fed = [self._forced.fed(sample, levels) for sample, levels in zip(self._samples, self._given, strict=True)]
        found = rounding_bounds(model, wanted, fed, self._executor)
        if found is None:
            raise UnexplainedError("the rounding error of its values cannot be measured")
        pairs = zip(self._known, found, strict=True)
        return [last_places(constants) | not_below_last_places(run, bounds) for run, bounds in pairs]

    def compare(self, number: int, outputs: Mapping[str, ir.Value], limits: Limits, *, asks: bool) -> Ties:
        """Compare a run of the second model on a sample with this one. Raises UnexplainedError."""
        run, own, known, bounds = self.runs[number], self._own[number], self._known[number], self._bounds[number]
        flipped = levels = 0
        places: dict[str, Array] = {}
        ranges, inside = self._ranges(number)
        for node, value in self.chosen.items():
            name = str(value.name)
            flips = flips_at_ties(name, own[name], known[name], *ranges[name])
            flipped, levels = flipped + int(flips.sum()), levels + flips.size
            places[name] = flips
            for old, new in _decided_by(node, self._successors[name].producer()) if flips.any() else ():
                read = str(old.name)
                moved = np.abs(run[str(new.name)].astype(np.float64) - known[read].astype(np.float64))
                if (moved > 2 * bounds.get(read, np.zeros(())))[np.broadcast_to(flips, moved.shape)].any():
                    raise UnexplainedError(f"levels of {name} differ by more than the rounding error of their inputs")
        share = 0.0
        for name, new in outputs.items():
            if name in self.names:
                continue
            expected, found = known[name], run[str(new.name)]
            if expected.dtype != found.dtype or expected.shape != found.shape:
                raise UnexplainedError(f"{name} has another type or shape")
            bound = limits.of(expected.dtype)
            shares = share_of_bound(expected, found, bound.atol, bound.rtol, bounds.get(name, 0.0))
            share = max(share, float(shares.max(initial=0.0)))
        if share > 1:
            raise UnexplainedError("with the same levels given the outputs still differ")
        return Ties(flipped, levels, share, *(self._who_is_right(number, places, inside) if asks else (0, 0)))

    def _ranges(self, number: int) -> tuple[dict[str, Range], dict[str, list[str]]]:
        """Return the least and the greatest level of every node on a sample, by name of what is taken for it.

        Returns as well which levels were looked at with their least and greatest to find these.
        """
        known, bounds = self._known[number], self._bounds[number]
        found = self._levels.around(known, bounds)
        ranges: dict[str, Range] = {}
        inside: dict[str, list[str]] = {}
        unsettled: dict[str, Range] = {}
        for node, value in self._taken_for.items():
            name, sides = str(value.name), found[node]
            behind = [each for each in self._forced.levels_before(node) if each in unsettled]
            if node in self.chosen and behind:
                kept = names_before(self._successors[name])
                behind = [each for each in behind if each not in self.names or not self._is_read(each, kept)]
            if behind:
                inside[name] = behind
                for side in (0, 1):
                    moved = self._given[number] | {each: unsettled[each][side] for each in behind}
                    reads = known | self._forced.run(self._samples[number], moved) | moved
                    sides = _hull(sides, self._levels.around(reads, bounds, [node])[node])
            ranges[name] = sides = self._taken(number, node, sides)
            if np.any(sides[0] != sides[1]):
                unsettled[name] = sides
        return ranges, inside

    def _taken(self, number: int, node: ir.Node, sides: Range) -> Range:
        """Return what is made of the least and of the greatest level of a node, where that is taken for it."""
        value = self._taken_for[node]
        if value is node.outputs[0]:
            return sides
        if node not in self._behind:
            self._behind[node] = Forced(self._model, node.outputs[:1], self._own[number], [value], self._executor)
        ends = [self._behind[node].run(self._samples[number], {str(node.outputs[0].name): side}) for side in sides]
        low, high = (end[str(value.name)] for end in ends)
        return np.minimum(low, high), np.maximum(low, high)

    def _is_read(self, name: str, kept: frozenset[str]) -> bool:
        """Return whether what stands for a level is among values."""
        return str(self._successors[name].name) in kept

    def _who_is_right(
        self, number: int, places: Mapping[str, Array], inside: Mapping[str, Sequence[str]]
    ) -> tuple[int, int]:
        """Count where exact arithmetic chooses the new level, and where the old one."""
        own, values = self._own[number], self._known[number]
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
                new += bool(np.isclose(level, values[name][at], rtol=_SAME, atol=0))
                old += bool(np.isclose(level, own[name][at], rtol=_SAME, atol=0))
        return new, old


def _hull(a: Range, b: Range) -> Range:
    return np.minimum(a[0], b[0]), np.maximum(a[1], b[1])


def _require_types(values: Iterable[ir.Value], given: Sample) -> None:
    """Refuse levels of another type than that of the values they are taken for."""
    for value in values:
        if value.dtype is not None and value.dtype.numpy() != given[str(value.name)].dtype:
            raise UnexplainedError(f"{value.name} has another type or shape")


def _decided_by(old: ir.Node, new: ir.Node | None) -> list[tuple[ir.Value, ir.Value]]:
    """Pair what two nodes choose levels by, where they choose alike and it is of one shape."""
    if new is None or not decide_alike(old, new):
        return []
    pairs = zip(moved_inputs(old), moved_inputs(new), strict=True)
    return [(a, b) for a, b in pairs if a.producer() is not None and b.producer() is not None]


def flips_at_ties(name: str, expected: np.ndarray, found: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Find the levels that are other than expected. Raises UnexplainedError where no tie allows it."""
    if expected.dtype != found.dtype or expected.shape != found.shape:
        raise UnexplainedError(f"{name} has another type or shape")
    wide = np.float64
    a, b = expected.astype(wide), found.astype(wide)
    slack = _SAME * np.abs(a)
    flipped = ~((np.abs(a - b) <= slack) | (np.isnan(a) & np.isnan(b)) | (a == b))
    least, greatest = np.minimum(low.astype(wide), a) - slack, np.maximum(high.astype(wide), a) + slack
    if not ((least <= b) & (b <= greatest))[flipped].all():
        raise UnexplainedError(f"levels of {name} differ where nothing is near to an edge")
    return flipped


def _values(chosen: Mapping[ir.Node, ir.Value], successors: Mapping[str, ir.Value]) -> list[ir.Value]:
    """List what stands for levels in the second model, and what they are chosen by."""
    found = {node: successors[str(value.name)] for node, value in chosen.items()}
    read = [b for node, value in found.items() for _, b in _decided_by(node, value.producer())]
    return list(dict.fromkeys([*found.values(), *read]))
