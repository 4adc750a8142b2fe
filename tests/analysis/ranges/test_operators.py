"""Ranges of single nodes over attributes drawn at random: never narrower than what comes out, and not much wider.

What comes out is driven to its ends: for one element of a result, every element of the inputs is moved to the end of
its range that makes that one larger, or smaller.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.analysis.ranges import ranges_of
from onnx_passes.numbers.grid import Grid
from onnx_passes.numbers.range import Range
from tests.analysis.ranges.soundness import _check, _size, inferred
from tests.helpers.random_nodes import NODES, Array, Drawn, session_of, some
from tests.helpers.thorough import THOROUGH

COUNT = 16 if THOROUGH else 5
_ROUNDS = 2
_MOST = 200
TIGHT = 1.001
"""How much wider than what comes out a range may be, of most nodes."""
Seeds = Mapping[str, tuple[float, float]]
LOOSE = frozenset(
    {"ArgMin", "BatchNormalization", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "ConvInteger"}
    | {"ConvTranspose", "Cos", "CumSum", "Mish", "ThresholdedRelu", "Less", "LessOrEqual", "Greater"}
    | {"Equal", "FloatMod", "GreaterOrEqual", "InstanceNormalization", "IsInf", "IsNaN", "LayerNormalization"}
    | {"LogSoftmax", "LpNormalization", "LpPool", "MatMulInteger", "Mod", "OneHot", "ReduceL1", "ReduceL1-11"}
    | {"ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax-11", "ReduceMin", "ReduceProd", "ReduceSumSquare"}
    | {"ScatterElements", "ScatterND", "Shrink", "Sin", "Softmax", "Softmax-11"}
)
"""Operators of which less is known, or whose results are hard to drive to their ends."""

ON_A_GRID = frozenset(
    {"Abs", "Add", "ArgMax", "Cast", "Ceil", "DepthToSpace", "DequantizeLinear", "Expand", "Flatten", "Floor", "Gather"}
    | {"GatherElements", "GatherND", "GlobalAveragePool", "GlobalMaxPool", "Identity", "MaxPool", "Mean", "Mul", "Neg"}
    | {"QuantizeLinear", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "Relu", "Reshape", "Resize", "Round"}
    | {"Slice", "SpaceToDepth", "Split", "Squeeze", "Sub", "Sum", "Tile", "TopK", "Transpose", "Unsqueeze", "Where"}
)
"""Operators that make scaled integers of integers."""


def seeds_of(each: Drawn, rng: np.random.Generator, *, grid: bool) -> Seeds:
    """Choose what may come in: all signs, numbers of one sign, or integers as they are."""
    found: dict[str, tuple[float, float]] = {}
    for name, array in each.feeds.items():
        if array.dtype.kind == "b":
            continue
        least, most = float(array.min(initial=0)), float(array.max(initial=0))
        if array.dtype.kind == "f":
            choices = [(-4.0, 4.0), (-1.5, 3.25), (0.5, 3.0), (-3.0, -0.25), (0.0, 2.0)]
            choices = [(-4.0, 3.0), (-2.0, 5.0), (1.0, 6.0), (-3.0, -1.0), (0.0, 3.0)] if grid else choices
            least, most = choices[int(rng.integers(len(choices)))]
            if (array > 0).all():
                # The operator may be defined for positive numbers only.
                least, most = (1.0, 5.0) if grid else (0.25, 5.0)
        elif each.name.startswith("Mod") and array is list(each.feeds.values())[-1]:
            least = most = 3.0
        found[name] = (least, most)
    return found


class Driven:
    """Results of a node for inputs at the ends of their ranges."""

    def __init__(self, each: Drawn, seeds: Seeds, rng: np.random.Generator, *, grid: bool) -> None:
        self._session, self._each = session_of(each.proto), each
        self._seeds, self._rng, self._grid = seeds, rng, grid
        self.samples: list[list[Array]] = []

    def run(self, feeds: dict[str, Array]) -> list[Array]:
        results = self._session.run(None, feeds)
        self.samples.append(results)
        return results

    def drive(self) -> None:
        """Try random inputs, then move one result up and down as far as it goes."""
        for inside in (True, False, False):
            self.run({name: self._drawn(name, array, inside=inside) for name, array in self._each.feeds.items()})
        result = self._each.results[0]
        if result.dtype.kind not in "fiu" or not result.size:
            return
        place = int(self._rng.integers(result.size))
        for sign in (1, -1):
            self._climb(place, sign)

    def _drawn(self, name: str, array: Array, *, inside: bool) -> Array:
        if name not in self._seeds:
            return np.asarray(self._rng.random(array.shape) < 0.5)
        low, high = self._seeds[name]
        share = self._rng.random(array.shape) if inside else self._rng.integers(0, 2, array.shape)
        number = low + share * (high - low)
        return np.asarray(np.rint(number) if self._grid else number).astype(array.dtype)

    def _climb(self, place: int, sign: int) -> None:
        feeds = {name: self._drawn(name, array, inside=False) for name, array in self._each.feeds.items()}
        best = sign * float(self.run(feeds)[0].reshape(-1)[place])
        for _ in range(_ROUNDS):
            for name, array in feeds.items():
                if name not in self._seeds:
                    continue
                for at in range(min(array.size, _MOST)):
                    before = array.reshape(-1)[at]
                    for end in self._seeds[name]:
                        array.reshape(-1)[at] = end
                        value = sign * float(self.run(feeds)[0].reshape(-1)[place])
                        if value > best:
                            best, before = value, array.reshape(-1)[at]
                    array.reshape(-1)[at] = before


def _ranges(each: Drawn, seeds: Seeds, *, grid: bool) -> list[Range]:
    model = inferred(ir.from_proto(each.proto))
    given = {name: _integers(*ends) if grid else ends for name, ends in seeds.items()}
    found = ranges_of(model, given)
    return [found[value] for value in model.graph.outputs]


def _integers(low: float, high: float) -> Range:
    one, bounds = np.ones(()), (np.asarray(low), np.asarray(high))
    return Range(*bounds, Grid.of(one, np.zeros(()), *bounds))


def _require_inside(each: Drawn, seeds: Seeds, known: list[Range], driven: Driven) -> None:
    largest = max((abs(end) for ends in seeds.values() for end in ends), default=0.0)
    outputs = ir.from_proto(each.proto).graph.outputs
    for sample in driven.samples:
        for value, array, found in zip(outputs, sample, known, strict=True):
            try:
                _check(value, array, found, max(largest, _size(found)))
            except AssertionError as error:
                raise AssertionError(f"{seeds} {each}") from error


def _looseness(known: Range, driven: Driven) -> float:
    """Return how much wider a range is than what was seen, at the element that was driven furthest."""
    seen = np.stack([sample[0].astype(np.float64) for sample in driven.samples])
    width = seen.max(0) - seen.min(0)
    bound = np.broadcast_to(known.high - known.low, width.shape)
    ratio = np.where(width > 0, bound / np.where(width > 0, width, 1), np.where(bound <= 1e-4, 1.0, np.inf))
    return float(ratio.min(initial=np.inf))


@pytest.mark.parametrize("name", NODES)
@pytest.mark.parametrize("grid", [False, True])
def test_results_stay_inside_their_ranges_and_reach_them(name: str, *, grid: bool):
    loose: list[float] = []
    grids = 0
    for number, each in enumerate(some(name, COUNT)):
        rng = np.random.default_rng([number, *name.encode()])
        seeds = seeds_of(each, rng, grid=grid)
        driven = Driven(each, seeds, rng, grid=grid)
        driven.drive()
        known = _ranges(each, seeds, grid=grid)
        _require_inside(each, seeds, known, driven)
        grids += known[0].grid is not None
        if each.results[0].size:
            loose.append(_looseness(known[0], driven))
    assert name in LOOSE or np.median(loose) < TIGHT, loose
    assert not grid or name not in ON_A_GRID or grids == COUNT
