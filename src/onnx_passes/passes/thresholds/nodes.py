"""Nodes that count thresholds, seen alike: one row of constant thresholds for each function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.ranges.range import Range
from onnx_passes.datatypes.limits import EXACT_IN_FLOAT
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import dimension, rank
from onnx_passes.ops.collection import definition_of
from onnx_passes.ops.definition import GENERAL_DOMAINS, OUR_DOMAIN
from onnx_passes.ops.multi_threshold import channel_axis

OPERATOR = "MultiThreshold"
DOMAINS = GENERAL_DOMAINS
COUNTING_DOMAINS = tuple(domain for domain in GENERAL_DOMAINS if domain != OUR_DOMAIN)
"""Where thresholds have rows of channels, and steps of one height."""


@dataclass(frozen=True)
class Thresholds:
    """What a node does: ``scale`` times the number of thresholds reached, or the sum of their weights, plus ``bias``.

    ``rows`` has a row for each function; ``places`` is the shape of the functions, which broadcasts against x and has
    its rank. ``weights`` has the shape of the rows; where every threshold counts the same there are none.
    """

    node: ir.Node
    x: ir.Value
    rows: np.ndarray
    places: tuple[int, ...]
    weights: np.ndarray | None
    scale: float
    bias: float

    @staticmethod
    def of(node: ir.Node) -> Thresholds | str:
        """Read a node; returns why not, where something is not constant or not known."""
        definition = definition_of(node)
        x, held = node.inputs[0], constant(node.inputs[1]) if len(node.inputs) > 1 else None
        axes = rank(x)
        if definition is None or x is None:
            return f"{node.op_type} is not defined"
        if held is None:
            return "its thresholds are computed"
        if axes is None:
            return "the shape of its input is not known"
        if x.dtype != ir.DataType.FLOAT or held.dtype != np.float32:
            return "it is not of float32 throughout"
        if held.size == 0 or held.ndim == 0 or (node.domain != OUR_DOMAIN and held.ndim != 2):
            return "its thresholds have a shape that they cannot have"
        given = definition.checked(node)
        if node.domain != OUR_DOMAIN:
            channels = len(held)
            places = [1] * axes
            if channels > 1:
                axis = channel_axis(given["data_layout"], axes)
                if axis >= axes or dimension(x, axis) not in (None, channels):
                    return "its thresholds are not for as many channels as there are"
                places[axis] = channels
            return Thresholds(node, x, held, tuple(places), None, given["out_scale"], given["out_bias"])
        if held.ndim - 1 > axes:
            return "its thresholds have more axes than its input"
        weighted = node.inputs[2] if len(node.inputs) > 2 else None
        weights = np.ones(1, np.float32) if weighted is None else constant(weighted)
        if weights is None or weights.dtype != np.float32:
            return "its weights are computed, or not of float32"
        places, amount = (1,) * (axes - held.ndim + 1) + held.shape[:-1], held.shape[-1]
        weights = None if weighted is None else np.broadcast_to(weights, held.shape).reshape(-1, amount)
        return Thresholds(node, x, held.reshape(-1, amount), places, weights, 1.0, given["out_bias"])

    @property
    def axes(self) -> dict[int, int]:
        """Return the axes of x along which functions differ, with their sizes."""
        return {axis: size for axis, size in enumerate(self.places) if size > 1}

    @property
    def is_growing(self) -> bool:
        """Tell whether no step goes down."""
        return self.scale >= 0 and (self.weights is None or bool((self.weights >= 0).all()))

    @property
    def is_in_integers(self) -> bool:
        """Tell whether every sum of steps is an integer that floats hold, in whatever order it is added up."""
        steps = np.array([self.scale]) if self.weights is None else self.weights
        if self.bias != round(self.bias) or (steps != np.rint(steps)).any():
            return False
        height = np.abs(steps).max(initial=0) * self.rows.shape[1]
        return bool(height + abs(self.bias) < EXACT_IN_FLOAT)

    def levels(self) -> np.ndarray:
        """Return what so many thresholds count for, from none to all, where each counts the same."""
        return level_values(self.scale, self.bias, self.rows.shape[1])

    def shaped(self, rows: np.ndarray) -> np.ndarray:
        """Give rows the shape that the node takes."""
        if self.node.domain != OUR_DOMAIN:
            return np.ascontiguousarray(rows)
        held = constant(self.node.inputs[1])
        assert held is not None
        return np.ascontiguousarray(rows).reshape(*held.shape[:-1], rows.shape[1])


def is_thresholds(node: ir.Node | None) -> bool:
    """Tell whether a node counts thresholds."""
    return node is not None and node.op_type == OPERATOR and node.domain in DOMAINS


def level_values(scale: float, bias: float, steps: int) -> np.ndarray:
    """Return the results of counting, from none to all, as float32 computes them."""
    counts = np.arange(steps + 1, dtype=np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.float32(scale) * counts + np.float32(bias)


def bounds(known: Range, places: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the greatest number that may come to each place."""
    return _joined(known.low, places, np.min), _joined(known.high, places, np.max)


def holds_integers(known: Range | None) -> bool:
    """Tell whether nothing but integers comes, in floats as well: no rounding on the way leaves something near them."""
    grid = None if known is None else known.integer_grid
    return grid is not None and grid.exact


def integers(known: Range | None, places: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray] | str:
    """Return the bounds of integers that may come to each place, or why there are none."""
    grid = None if known is None else known.integer_grid
    if grid is None or not grid.exact:
        return "its input is not known to be integer"
    low, high = _joined(grid.low, places, np.min), _joined(grid.high, places, np.max)
    if max(int(np.abs(low).max()), int(np.abs(high).max())) >= EXACT_IN_FLOAT:
        return "its input is beyond what floats hold"
    return low, high


def _joined(array: np.ndarray, places: tuple[int, ...], join: Any) -> np.ndarray:
    """Return one number for each place from numbers that broadcast against the same tensor."""
    if array.ndim != len(places):
        array = join(array).reshape((1,) * len(places))
    others = tuple(axis for axis, size in enumerate(places) if size == 1)
    kept = cast("np.ndarray", join(array, axis=others, keepdims=True)) if others else array
    return np.broadcast_to(kept, places).reshape(-1)
