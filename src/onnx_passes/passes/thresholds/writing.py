"""Build threshold nodes: in QONNX's form if possible, else in the general one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.datatypes.types import smallest_for_values
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.shapes import rank
from onnx_passes.graph.tensor_types import set_datatype
from onnx_passes.ops.definition import OUR_DOMAIN
from onnx_passes.passes.thresholds.levels import Levels
from onnx_passes.passes.thresholds.nodes import COUNTING_DOMAINS
from onnx_passes.passes.thresholds.search import SearchDomain
from onnx_passes.passes.thresholds.tail import Tail

_LAYOUTS: dict[tuple[int, int | None], str] = {
    (2, None): "NC",
    (2, 1): "NC",
    (3, None): "NWC",
    (3, 1): "NCW",
    (3, 2): "NWC",
    (4, None): "NCHW",
    (4, 1): "NCHW",
    (4, 3): "NHWC",
    (5, None): "NCDHW",
    (5, 1): "NCDHW",
    (5, 4): "NDHWC",
}


def layout_of_channels(axes: int, channels: Collection[int]) -> str | None:
    """Return the name of the layout with this rank and these channel axes in QONNX; None if there is none."""
    if len(channels) > 1:
        return None
    return _LAYOUTS.get((axes, next(iter(channels), None)))


@dataclass(frozen=True)
class Counting:
    """The lowest level plus one level for each reached threshold.

    The ``falling`` channels of the input are negated, and the domain is that of the negated input.
    """

    thresholds: np.ndarray
    domain: SearchDomain
    falling: np.ndarray | None = None


@dataclass(frozen=True)
class LevelSteps:
    """Levels that start at ``start`` and change by ``jump`` at each threshold, for each channel."""

    start: np.ndarray
    thresholds: np.ndarray
    jump: np.ndarray


@dataclass(frozen=True)
class _Weighted:
    """Inputs of the general form."""

    thresholds: np.ndarray
    weights: np.ndarray
    bias: float


def is_exact(steps: LevelSteps, levels: Levels) -> bool:
    """Return whether the general form accumulates steps to the exact levels."""
    form = _weighted(steps, levels)
    first = steps.start[:, None] - steps.start.min() if form.weights.shape != steps.jump.shape else steps.jump[:, :0]
    places = steps.start.min() + np.cumsum(np.concatenate([first, steps.jump], axis=1), axis=1)
    sums = np.cumsum(form.weights, axis=1, dtype=np.float32) + np.float32(form.bias)
    return bool(np.float32(form.bias) == levels.values[steps.start.min()] and (sums == levels.values[places]).all())


def write(op: Builder, x: ir.Value, tail: Tail, found: Counting | LevelSteps, levels: Levels) -> ir.Value:
    """Build the node that replaces a chain with base ``x``."""
    layout = layout_of_channels(rank(tail.base) or 0, tail.axes)
    name = f"{tail.result.name}_thresholds"
    if isinstance(found, Counting) and layout is not None:
        result = op.MultiThreshold(
            x,
            constant_of(op, _joined(found.thresholds), name),
            _domain=COUNTING_DOMAINS[0] if levels.domain == OUR_DOMAIN else levels.domain,
            out_dtype=levels.datatype or str(smallest_for_values(levels.values)),
            out_scale=float(levels.scale),
            out_bias=float(levels.bias),
            data_layout=layout,
        )
    else:
        form, shape = _weighted(found, levels), tail.layout
        result = op.MultiThreshold(
            x,
            constant_of(op, form.thresholds.reshape(*shape, -1), name),
            constant_of(op, form.weights.reshape(*shape, -1), f"{tail.result.name}_weights"),
            _domain=OUR_DOMAIN,
            out_bias=float(form.bias),
        )
    if levels.datatype:
        set_datatype(result, levels.datatype)
    return result


def _weighted(found: Counting | LevelSteps, levels: Levels) -> _Weighted:
    thresholds = found.thresholds
    if isinstance(found, Counting):
        return _Weighted(thresholds, np.full(thresholds.shape, levels.scale, np.float32), levels.bias)
    start, weights = found.start, (found.jump * levels.scale).astype(np.float32)
    lowest = int(start.min())
    # Different start levels of channels become an additional first step.
    if (start != lowest).any():
        first = np.full((len(start), 1), -np.inf, np.float32)
        thresholds = np.concatenate([first, thresholds], axis=1)
        height = ((start - lowest) * levels.scale)[:, None].astype(np.float32)
        weights = np.concatenate([height, weights], axis=1)
    return _Weighted(thresholds, weights, float(levels.values[lowest]))


def _joined(thresholds: np.ndarray) -> np.ndarray:
    """Reduce thresholds that are the same for all channels to one row."""
    same = len(thresholds) > 1 and bool((thresholds == thresholds[:1]).all())
    return thresholds[:1] if same else thresholds


def constant_of(op: Builder, array: np.ndarray, wish: str) -> ir.Value:
    """Build a constant of float32, annotated with its data type."""
    value = op.initializer(np.ascontiguousarray(array, np.float32), wish)
    set_datatype(value, smallest_for_values(array.astype(np.float32)))
    return value
