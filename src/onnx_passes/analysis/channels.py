"""Channels of tensors: which values they can hold, which never change, and which nobody looks at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from onnx_passes.core.walk import holds_graphs
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import dimension, rank
from onnx_passes.graph.traits import traits_of
from onnx_passes.numbers.range import Range
from onnx_passes.ops.quantizer import is_quantizer

_FURTHEST = 16
"""So many nodes before a value are asked where its channels are."""


class TensorRange(NamedTuple):
    """Which values a tensor can hold: between ``low`` and ``high``, and if it has a ``scale`` on a grid of that step.

    ``channels`` counts them, if that is known; the ``stuck`` ones hold a single value for all inputs. What is
    ``unread`` meets only weights that are zero. ``values`` are those of the stuck channels. An open end is ``None``.
    """

    name: str
    low: float | None
    high: float | None
    scale: float | None
    channels: int | None
    stuck: tuple[int, ...]
    values: tuple[float, ...]
    unread: tuple[int, ...]


def range_report(graph: ir.Graph, known: Mapping[ir.Value, Range]) -> tuple[TensorRange, ...]:
    """List the inputs and results of a graph of which something is known, in the order in which they are computed."""
    values = [*graph.inputs, *(value for node in graph for value in node.outputs)]
    return tuple(
        _tensor_range(value, known[value])
        for value in values
        if value in known and constant(value) is None and value.name and not known[value].is_unknown
    )


def channel_axis(value: ir.Value) -> int | None:
    """Return the axis of channels: as the product before it has them, else axis 1, or the last of three."""
    length = rank(value)
    if length is None or length < 2:
        return None
    node = value.producer()
    for _ in range(_FURTHEST):
        if node is None:
            break
        if traits_of(node).kind == "product":
            return 1 if node.op_type.startswith("Conv") else length - 1
        if traits_of(node).kind not in ("elementwise", "pooling") and not is_quantizer(node):
            break
        moving = [given for given in node.inputs if given is not None and constant(given) is None]
        node = moving[0].producer() if moving else None
    return length - 1 if length == 3 else 1


def by_channel(array: np.ndarray, axis: int, channels: int, join: np.ufunc) -> np.ndarray:
    """Return one number for each channel of an array that broadcasts to a tensor: the least, or the greatest."""
    others = tuple(each for each in range(array.ndim) if each != axis)
    return np.broadcast_to(join.reduce(array, axis=others).reshape(-1), channels)


def unread_channels(value: ir.Value, axis: int, channels: int) -> np.ndarray:
    """Tell which channels meet only weights that are zero; none where something else than a product reads them."""
    unread = np.ones(channels, bool)
    if value.is_graph_output() or not value.uses():
        return np.zeros(channels, bool)
    for node, index in value.uses():
        weights = None if index or holds_graphs(node) else _weights_by_input(node, axis, channels)
        if weights is None:
            return np.zeros(channels, bool)
        unread &= ~weights.any(axis=1)
    return unread


def _weights_by_input(node: ir.Node, axis: int, channels: int) -> np.ndarray | None:
    """Return the constant weights of a product, with a row for each channel that it reads."""
    length = rank(node.inputs[0])
    held = constant(node.inputs[1]) if traits_of(node).kind == "product" and len(node.inputs) > 1 else None
    if held is None or length is None:
        return None
    if node.op_type == "Conv" and axis == 1 and held.ndim > 1 and held.shape[1] == channels:
        return np.moveaxis(held, 1, 0).reshape(channels, -1)
    if node.op_type == "MatMul" and axis == length - 1 and held.ndim == 2 and held.shape[0] == channels:
        return held
    return None


def _tensor_range(value: ir.Value, known: Range) -> TensorRange:
    axis = channel_axis(value)
    channels = None if axis is None else dimension(value, axis)
    stuck, values, unread = np.zeros(0, bool), np.zeros(0), np.zeros(0, bool)
    if axis is not None and channels is not None and known.low.ndim == known.high.ndim == rank(value):
        low = by_channel(known.low, axis, channels, np.minimum)
        high = by_channel(known.high, axis, channels, np.maximum)
        stuck, values = (low == high) & np.isfinite(low), low
        unread = unread_channels(value, axis, channels)
    grid = known.grid
    one_scale = grid is not None and grid.scale.size and bool((grid.scale == grid.scale.flat[0]).all())
    return TensorRange(
        value.name or "",
        _end(known.low.min()),
        _end(known.high.max()),
        float(grid.scale.flat[0]) if grid is not None and one_scale else None,
        channels,
        tuple(np.flatnonzero(stuck).tolist()),
        tuple(values[stuck].tolist()) if stuck.any() else (),
        tuple(np.flatnonzero(unread).tolist()),
    )


def _end(number: np.floating) -> float | None:
    return float(number) if np.isfinite(number) else None
