"""All that a value can be, element by element, and sides on it that every engine rounds alike, computed by numpy."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.fragment.fragment import Fragment
from onnx_passes.graph.constants import constant
from onnx_passes.numbers.algebra import Symbol
from onnx_passes.ops.definition import definition_of
from onnx_passes.ops.number_systems.scalars import compute
from onnx_passes.ops.quant import Quant
from onnx_passes.verify.proving.facts import Facts
from onnx_passes.verify.proving.pointwise import Pointwise, rows_of


@dataclass(frozen=True, eq=False)
class Points:
    """``scale * q + bias`` for the integers from ``low`` to ``high``; each array has a number for every channel."""

    scale: np.ndarray
    bias: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of the first and the last point of every channel."""
        return self.low, self.high

    @property
    def most(self) -> int:
        """Return the number of points of the channel that has most."""
        return int((self.high - self.low).max()) + 1

    def at(self, steps: np.ndarray) -> np.ndarray:
        """Return the points of integers of shape ``[channels, n]``; those beyond the bounds are the bounds."""
        within = np.clip(steps, self.low[:, None], self.high[:, None])
        return self.scale[:, None] * within + self.bias[:, None]

    def all(self) -> np.ndarray:
        """Return every point of every channel, of which some are there more than once where others have more."""
        return self.at(self.low[:, None] + np.arange(self.most))

    def around(self, limits: np.ndarray) -> np.ndarray:
        """Return the ends and, for every limit, the last point before it and the first that is not."""
        with np.errstate(invalid="ignore", over="ignore"):
            place = (limits.astype(np.float64) - self.bias[:, None]) / self.scale[:, None]
        place = np.clip(np.nan_to_num(place, nan=0.0), self.low[:, None] - 1, self.high[:, None] + 1)
        # The quotient may be off by its last bit: two points on either side are more than enough.
        nearest = np.rint(place).astype(np.int64)
        steps = [self.low[:, None], self.high[:, None], *(nearest + offset for offset in (-1, 0, 1))]
        return self.at(np.concatenate(steps, axis=1))

    def __str__(self) -> str:
        low, high = int(self.low.min()), int(self.high.max())
        what = "integers" if (self.scale == 1).all() and (self.bias == 0).all() else "multiples of a power of two"
        return f"{what} from {low:,} to {high:,}"


def points_of(found: Pointwise, facts: Facts) -> Points | None:
    """Return the points that the source of two sides can be, if it holds exactly what a grid says."""
    grid = facts.near_range_of(found.source).grid
    if grid is None or not grid.exact or grid.scale.ndim != found.rank:
        return None
    joined = grid.joined([axis for axis in range(found.rank) if axis not in found.axes])
    if joined is None:
        return None
    arrays = (joined.scale, joined.bias, joined.low, joined.high)
    return Points(*(np.broadcast_to(array, found.layout).reshape(-1) for array in arrays))


@dataclass(frozen=True)
class Floats:
    """All finite floats of single precision, in their order: neighbours have numbers that differ by one."""

    channels: int

    @property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of the first and the last point of every channel."""
        last = np.full(self.channels, np.finfo(np.float32).max, np.float32).view(np.int32).astype(np.int64)
        return -last, last

    def at(self, steps: np.ndarray) -> np.ndarray:
        """Return the floats of numbers."""
        size = np.abs(steps).astype(np.int32).view(np.float32)
        return np.where(steps < 0, -size, size).astype(np.float32)

    def around(self, limits: np.ndarray) -> np.ndarray:
        """Return the ends and, for every limit, the last float before it and the first that is not."""
        with np.errstate(over="ignore"):
            before = np.nextafter(limits, np.float32(-np.inf), dtype=np.float32)
        ends = np.stack(self.ends, axis=1)
        return np.concatenate([before, limits, self.at(ends)], axis=1)

    def beside(self, ignores: Collection[str]) -> np.ndarray:
        """Return what is not among them: zeros of either sign, and infinities and NaN unless a pass ignores them."""
        others = [-0.0, 0.0]
        others += [] if "ninf" in ignores else [-np.inf, np.inf]
        others += [] if "nnan" in ignores else [np.nan]
        return np.tile(np.array(others, np.float32), (self.channels, 1))

    def __str__(self) -> str:
        return "floats"


_OPERATORS = frozenset({"Add", "Div", "Identity", "Max", "Min", "Mul", "Neg", "Relu", "Sub"})
_TWO = 2


def is_arithmetic(side: Fragment) -> bool:
    """Tell whether numpy computes a side as any engine does."""
    return len(side.outputs) == 1 and all(map(_is_known, side.moving))


def computed(found: Pointwise, side: Fragment, points: np.ndarray) -> np.ndarray:
    """Return what a side makes of points of shape ``[channels, n]``."""
    known: dict[ir.Value, np.ndarray] = {side.inputs[0]: points}
    with np.errstate(all="ignore"):
        for node in side.moving:
            known[node.outputs[0]] = _result(found, node, known)
    return np.broadcast_to(known[side.outputs[0]], points.shape)


def _is_known(node: ir.Node) -> bool:
    values = [value for value in node.inputs if value is not None]
    if any(value.dtype not in (None, ir.DataType.FLOAT) for value in (*values, *node.outputs)):
        return False
    held = [constant(value) for value in values[1:]]
    if node.domain == "":
        return len(values) <= _TWO and node.op_type in _OPERATORS and not node.attributes
    if node.op_type == "MultiThreshold":
        rows = held[0] if len(held) == 1 else None
        return rows is not None and "data_layout" in _names(node)
    return isinstance(definition_of(node), Quant) and all(array is not None for array in held)


def _names(node: ir.Node) -> set[str]:
    definition = definition_of(node)
    return set() if definition is None else {attribute.name for attribute in definition.attributes}


def _result(found: Pointwise, node: ir.Node, known: Mapping[ir.Value, np.ndarray]) -> np.ndarray:
    if node.op_type == "MultiThreshold":
        rows, given = rows_of(node, found), node.inputs[0]
        assert rows is not None
        assert given is not None
        return _counted(node, np.sort(rows, axis=1), known[given])
    inputs = [_input(found, value, known) for value in node.inputs if value is not None]
    if node.domain == "":
        floats = (ir.DataType.FLOAT,) * len(inputs)
        return compute(
            Symbol(node.op_type, ir.DataType.FLOAT, floats), [each.astype(np.float32, copy=False) for each in inputs]
        )
    definition = definition_of(node)
    assert definition is not None
    return definition.compute(inputs, definition.checked(node))


def _input(found: Pointwise, value: ir.Value, known: Mapping[ir.Value, np.ndarray]) -> np.ndarray:
    if value in known:
        return known[value]
    array = constant(value)
    assert array is not None
    if array.size == 1:
        return array.reshape(1, 1)
    spread = array.reshape((1,) * (found.rank - array.ndim) + array.shape)
    return np.broadcast_to(spread, found.layout).reshape(-1, 1)


def _counted(node: ir.Node, rows: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Count the thresholds that points have reached."""
    definition = definition_of(node)
    assert definition is not None
    given = definition.checked(node)
    counted = np.empty(points.shape, np.float32)
    for channel, row in enumerate(rows):
        counted[channel] = np.searchsorted(row, points[channel], side="right")
    return np.float32(given["out_scale"]) * counted + np.float32(given["out_bias"])
