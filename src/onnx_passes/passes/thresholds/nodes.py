"""A common view of all MultiThreshold nodes: one row of constant thresholds for each function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import onnx_ir as ir

from onnx_passes.datatypes.base import EXACT_IN_FLOAT
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import dimension, rank
from onnx_passes.numbers.range import Range
from onnx_passes.ops.definition import GENERAL_DOMAINS, OUR_DOMAIN, definition_of
from onnx_passes.ops.multi_threshold import channel_axis

OPERATOR = "MultiThreshold"
DOMAINS = GENERAL_DOMAINS
COUNTING_DOMAINS = tuple(domain for domain in GENERAL_DOMAINS if domain != OUR_DOMAIN)
"""Domains in which thresholds are per channel, with steps of equal height."""


@dataclass(frozen=True)
class Thresholds:
    """A MultiThreshold: ``scale`` times the number of reached thresholds, or the sum of their weights, plus ``bias``.

    ``rows`` has a row for each function; ``places`` is the shape of the functions, which broadcasts against x and has
    its rank. ``weights`` has the shape of the rows; None if all thresholds have equal weight.
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
        """Return the thresholds of a node, or the reason why they are not constant or known."""
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
            return "its input and thresholds are not float32"
        if held.size == 0 or held.ndim == 0 or (node.domain != OUR_DOMAIN and held.ndim != 2):
            return "its thresholds have an invalid shape"
        given = definition.checked(node)
        if node.domain != OUR_DOMAIN:
            channels = len(held)
            places = [1] * axes
            if channels > 1:
                axis = channel_axis(given["data_layout"], axes)
                if axis >= axes or dimension(x, axis) not in (None, channels):
                    return "its thresholds are for another number of channels"
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
        """Return the axes of x along which functions vary, with their sizes."""
        return {axis: size for axis, size in enumerate(self.places) if size > 1}

    @property
    def is_growing(self) -> bool:
        """Return whether no step decreases."""
        return self.scale >= 0 and (self.weights is None or bool((self.weights >= 0).all()))

    @property
    def is_in_integers(self) -> bool:
        """Return whether all sums of steps are integers that floats hold, in any order of summation."""
        steps = np.array([self.scale]) if self.weights is None else self.weights
        if self.bias != round(self.bias) or (steps != np.rint(steps)).any():
            return False
        height = np.abs(steps).max(initial=0) * self.rows.shape[1]
        return bool(height + abs(self.bias) < EXACT_IN_FLOAT)

    def levels(self) -> np.ndarray:
        """Return the result for each number of reached thresholds, for equal weights."""
        return level_values(self.scale, self.bias, self.rows.shape[1])

    def shaped(self, rows: np.ndarray) -> np.ndarray:
        """Return rows in the shape of the node's thresholds."""
        if self.node.domain != OUR_DOMAIN:
            return np.ascontiguousarray(rows)
        held = constant(self.node.inputs[1])
        assert held is not None
        return np.ascontiguousarray(rows).reshape(*held.shape[:-1], rows.shape[1])


def is_thresholds(node: ir.Node | None) -> bool:
    """Return whether a node is a MultiThreshold."""
    return node is not None and node.op_type == OPERATOR and node.domain in DOMAINS


def level_values(scale: float, bias: float, steps: int) -> np.ndarray:
    """Return the results for each number of reached thresholds, as computed in float32."""
    counts = np.arange(steps + 1, dtype=np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.float32(scale) * counts + np.float32(bias)


def bounds(known: Range, places: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return the bounds of the input of each function."""
    return _joined(known.low, places, np.min), _joined(known.high, places, np.max)


def holds_integers(known: Range | None) -> bool:
    """Return whether a value holds exact integers, also in floats: no rounding leaves numbers near integers."""
    grid = None if known is None else known.integer_grid
    return grid is not None and grid.exact


def integers(known: Range | None, places: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray] | str:
    """Return the bounds of the integer input of each function, or the reason if it is not integer."""
    grid = None if known is None else known.integer_grid
    if grid is None or not grid.exact:
        return "its input is not known to be integer"
    low, high = _joined(grid.low, places, np.min), _joined(grid.high, places, np.max)
    if max(int(np.abs(low).max()), int(np.abs(high).max())) >= EXACT_IN_FLOAT:
        return "its input exceeds the integers that floats hold"
    return low, high


def _joined(array: np.ndarray, places: tuple[int, ...], join: Any) -> np.ndarray:
    """Return one number per function from numbers that broadcast against the same tensor."""
    if array.ndim != len(places):
        array = join(array).reshape((1,) * len(places))
    others = tuple(axis for axis, size in enumerate(places) if size == 1)
    kept = cast("np.ndarray", join(array, axis=others, keepdims=True)) if others else array
    return np.broadcast_to(kept, places).reshape(-1)
