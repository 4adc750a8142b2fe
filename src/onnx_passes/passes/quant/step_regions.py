"""Regions of standard operators that compute the level of a value: by comparisons, tables, or both."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import rank
from onnx_passes.passes.thresholds.levels import Levels
from onnx_passes.passes.thresholds.search import FloatPoints, bisect
from onnx_passes.passes.thresholds.tail import Tail
from onnx_passes.passes.thresholds.writing import Counting, LevelSteps

_SMALL = (ir.DataType.INT8, ir.DataType.UINT8)
_COMPARISONS = {"GreaterOrEqual": np.greater_equal, "Greater": np.greater, "Less": np.less}
_ARITHMETIC: dict[str, Callable[..., np.ndarray]] = {
    **_COMPARISONS,
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Min": np.minimum,
    "Max": np.maximum,
    "Floor": np.floor,
    "Not": np.logical_not,
    "Where": np.where,
}
_MOST_CHANNELS = 2**14
_MOST_POINTS = 2**13
"""Ranges up to this size are evaluated integer by integer."""
_MOST_WORK = 2**27


def find_region(end: ir.Node, place: Mapping[ir.Node, int]) -> Tail | None:
    """Return the region from a node back to the single value of which it is an elementwise function; None if none."""
    if not _is_inner(end):
        return None
    inside, opened, found = {end: None}, dict.fromkeys(_dynamic(end)), None
    while True:
        if len(opened) == 1:
            found = next(iter(opened)), tuple(inside)
        nodes = [node for value in opened if (node := value.producer()) is not None and _may_enter(value, node, inside)]
        if not nodes:
            break
        node = max(nodes, key=place.__getitem__)
        inside[node] = None
        opened.pop(node.outputs[0])
        opened.update(dict.fromkeys(_dynamic(node)))
    if found is None:
        return None
    base, nodes = found[0], found[1][::-1]
    axes = _axes(nodes, rank(base))
    looks = any(node.op_type in _COMPARISONS or node.op_type == "Gather" for node in nodes)
    return (
        Tail(nodes, (nodes[-1].outputs[0],), (base,), axes)
        if looks and axes is not None and math.prod(axes.values()) <= _MOST_CHANNELS
        else None
    )


def _is_inner(node: ir.Node) -> bool:
    if node.domain or len(node.outputs) != 1:
        return False
    if node.op_type == "Gather":
        table = constant(node.inputs[0])
        return table is not None and table.ndim == 1 and node.attributes.get_int("axis", 0) == 0
    if node.op_type == "Cast":
        to, given = node.outputs[0].dtype, None if node.inputs[0] is None else node.inputs[0].dtype
        return to is not None and to.is_integer() and given is not None
    return node.op_type in _ARITHMETIC


def _may_enter(value: ir.Value, node: ir.Node, inside: Mapping[ir.Node, None]) -> bool:
    """Return whether a value is used only in the region; small integers belong to other computations."""
    if value.dtype in _SMALL or value.is_graph_output() or not _is_inner(node):
        return False
    return all(user in inside for user, _ in value.uses())


def _dynamic(node: ir.Node) -> list[ir.Value]:
    return [value for value in node.inputs if value is not None and constant(value) is None]


def _axes(nodes: tuple[ir.Node, ...], length: int | None) -> dict[int, int] | None:
    """Return the sizes of the axes along which constants vary."""
    axes: dict[int, int] = {}
    for node in nodes:
        for value in node.inputs[1:] if node.op_type == "Gather" else node.inputs:
            array = constant(value)
            if array is None or length is None:
                continue
            if array.ndim > length:
                return None
            axes |= {length - array.ndim + axis: size for axis, size in enumerate(array.shape) if size > 1}
    return None if length is None else dict(sorted(axes.items()))


class RegionSteps:
    """The function that a region computes from its converted base value, for each channel."""

    def __init__(self, region: Tail, base: ir.Value, bounds: tuple[int, int] | None) -> None:
        self._region = region
        self._base = base
        self._bounds = bounds
        self._layout = region.layout

    def find(self) -> tuple[Counting | LevelSteps, Levels] | str:
        """Return all steps and levels; the reason if the possible step positions are unknown."""
        points = self._points()
        if isinstance(points, str):
            return points
        if points.size * self._region.channels * len(self._region.nodes) > _MOST_WORK:
            return "it has too many thresholds"
        every = np.broadcast_to(points, (self._region.channels, points.size))
        values = self._evaluate(every, self._region.nodes).astype(np.int64)
        low, high = int(values.min()), int(values.max())
        if low == high:
            return "it is constant"
        scale = int(reduce(math.gcd, np.unique(values - low).tolist(), 0)) or 1
        levels = Levels((high - low) // scale, float(scale), float(low))
        return self._steps(points, (values - low) // scale, levels), levels

    def _steps(self, points: np.ndarray, places: np.ndarray, levels: Levels) -> Counting | LevelSteps:
        jumps = np.diff(places, axis=1)
        domain = FloatPoints.all(1)
        never = np.float32(np.inf if self._bounds is None else self._bounds[1] + 1)
        if (jumps >= 0).all():
            always = np.float32(points[0])
            rows = [
                [*[always] * int(row[0]), *np.repeat(points[1:], jump)] for row, jump in zip(places, jumps, strict=True)
            ]
            return Counting(np.array([row + [never] * (levels.steps - len(row)) for row in rows], np.float32), domain)
        most = max(1, int((jumps != 0).sum(axis=1).max()))
        at, height = np.full((len(jumps), most), never, np.float32), np.zeros((len(jumps), most), np.int64)
        for channel, row in enumerate(jumps):
            where = np.flatnonzero(row)
            at[channel, : where.size], height[channel, : where.size] = points[1:][where], row[where]
        return LevelSteps(places[:, 0], at, height)

    def _points(self) -> np.ndarray | str:
        """Return sorted points between which the function is constant."""
        if self._bounds is not None and self._bounds[1] - self._bounds[0] < _MOST_POINTS:
            return np.arange(self._bounds[0], self._bounds[1] + 1)
        compared, numbers = self._uses()
        if compared is None:
            return "its base is not only compared"
        if self._bounds is not None:
            low, high = self._bounds
            return np.unique(np.clip([low, *np.concatenate([np.zeros(0), *compared])], low, high).astype(np.int64))
        largest = np.finfo(np.float32).max
        edges = [] if numbers is None else self._edges(numbers)
        all_of_them = np.concatenate([[-largest, largest], *compared, *edges])
        finite = all_of_them[np.isfinite(all_of_them)]
        return np.unique(np.clip(finite, -largest, largest).astype(np.float32))

    def _uses(self) -> tuple[list[np.ndarray] | None, ir.Node | None]:
        """Return all numbers compared with the base, and the node that maps it to an index, if any."""
        direct, growing, tests, last = {self._base}, set[ir.Value](), set[ir.Value](), None
        compared: list[np.ndarray] = []
        for node in self._region.nodes:
            given = [value for value in node.inputs if value in direct]
            numbered = [value for value in node.inputs if value in growing or value in tests]
            if not given and not numbered:
                continue
            result, thresholds = node.outputs[0], _thresholds(node, 1)
            if given and node.op_type == "Cast" and self._bounds is not None:
                direct.add(result)
            elif thresholds is not None and given == [node.inputs[0]] and _compares(node):
                compared.append(thresholds)
            elif self._bounds is None and _is_monotone(node, direct | growing):
                if node.op_type == "Cast":
                    last = node
                else:
                    (tests if node.op_type in _COMPARISONS else growing).add(result)
            else:
                return None, None
        return compared, last

    def _edges(self, node: ir.Node) -> list[np.ndarray]:
        """Return the floats at which the monotone index of the base increases."""
        nodes = self._region.nodes[: self._region.nodes.index(node) + 1]
        domain = FloatPoints.all(self._region.channels)

        def number(points: np.ndarray) -> np.ndarray:
            return self._evaluate(points, nodes).astype(np.int64)

        ends = number(domain.points(np.stack([domain.low, domain.high], axis=1)))
        wanted = np.arange(int(ends.min()) + 1, int(ends.max()) + 1)
        return [domain.points(bisect(number, domain, wanted)).reshape(-1)]

    def _evaluate(self, points: np.ndarray, nodes: tuple[ir.Node, ...]) -> np.ndarray:
        """Evaluate nodes of the region on points of shape ``[channels, n]``."""
        dtype = self._base.dtype or ir.DataType.FLOAT
        shape = (points.shape[1], *self._layout)
        values: dict[ir.Value, np.ndarray] = {
            self._base: np.ascontiguousarray(points.T).reshape(shape).astype(dtype.numpy())
        }
        with np.errstate(over="ignore", invalid="ignore"):
            for node in nodes:
                values[node.outputs[0]] = _computed(node, values)
        return np.broadcast_to(values[nodes[-1].outputs[0]], shape).reshape(points.shape[1], -1).T


def _computed(node: ir.Node, values: Mapping[ir.Value, np.ndarray]) -> np.ndarray:
    arrays: list[Any] = [values.get(value, constant(value)) for value in node.inputs if value is not None]
    if node.op_type == "Gather":
        # An index outside the table is an error, so that no such value ever occurs.
        table, index = arrays
        return table[np.clip(index, -len(table), len(table) - 1)]
    if node.op_type == "Cast":
        return arrays[0].astype((node.outputs[0].dtype or ir.DataType.INT32).numpy())
    return _ARITHMETIC[node.op_type](*arrays)


def _thresholds(node: ir.Node, index: int) -> np.ndarray | None:
    """Return the possible values of an input: a constant, or the entries of a constant table."""
    value = node.inputs[index] if len(node.inputs) > index else None
    held, source = constant(value), None if value is None else value.producer()
    if held is None and source is not None and source.op_type == "Gather":
        held = constant(source.inputs[0])
    return None if held is None or held.dtype.kind not in "fiu" else held.reshape(-1).astype(np.float64)


def _compares(node: ir.Node) -> bool:
    """Return whether a node only tests which of two numbers is greater, also by the sign of a difference."""
    if node.op_type in _COMPARISONS:
        return True
    users = [user for user, _ in node.outputs[0].uses()]
    zeros = [constant(user.inputs[1]) for user in users if user.op_type in _COMPARISONS]
    return node.op_type == "Sub" and len(zeros) == len(users) and all(z is not None and not z.any() for z in zeros)


def _is_monotone(node: ir.Node, growing: set[ir.Value]) -> bool:
    """Return whether a node is monotone, or part of a monotone expression."""
    others = [constant(value) for value in node.inputs if value not in growing]
    if node.op_type != "Where":
        if len(others) != len(node.inputs) - 1 or any(other is None for other in others):
            return False
        if node.op_type == "Mul":
            return all(other is not None and bool((other > 0).all()) for other in others)
        return node.inputs[0] in growing and node.op_type in (
            "Floor",
            "Cast",
            "Sub",
            "Add",
            "Min",
            "Max",
            *_COMPARISONS,
        )
    if node.inputs[0] is None:
        return False
    # Where(x >= c, x, c) is Max(x, c).
    test, held = node.inputs[0].producer(), constant(node.inputs[2])
    bound = None if test is None or test.op_type != "GreaterOrEqual" else constant(test.inputs[1])
    is_same = test is not None and test.inputs[0] is node.inputs[1] and node.inputs[1] in growing
    return is_same and bound is not None and held is not None and np.array_equal(bound, held)
