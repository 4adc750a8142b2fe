"""Rules of operators that count thresholds."""

from __future__ import annotations

import numpy as np

from onnx_passes.analysis.ranges.arrays import along
from onnx_passes.analysis.ranges.elementwise import add
from onnx_passes.analysis.ranges.grid import Grid
from onnx_passes.analysis.ranges.range import UNKNOWN, Range
from onnx_passes.analysis.ranges.site import RANGES, Site, counted
from onnx_passes.graph.constants import constant
from onnx_passes.ops.definition import OUR_DOMAIN, QONNX_DOMAINS

_MOST_COMPARISONS = 2**22


def _multi_threshold(site: Site) -> Range:
    """Count the thresholds that both ends of the range have reached."""
    x, steps, shape, rank = site[0], constant(site.value(1)), site.shape(1), site.rank()
    scale, bias = site.attr_float("out_scale", 1.0), site.attr_float("out_bias", 0.0)
    if shape is None or len(shape) != 2:
        return UNKNOWN
    low, high = np.zeros(()), np.full((), float(shape[1]))
    if steps is not None and rank is not None:
        low, high = _reached(x, steps, _channel_axis(site, rank, shape[0]), rank)
    if scale == int(scale) and bias == int(bias):
        return Range.integers(
            np.minimum(scale * low, scale * high) + bias, np.maximum(scale * low, scale * high) + bias
        )
    found = Range.integers(low, high)
    slack = (abs(scale) * high + abs(bias)) * 2.0**-22
    low, high = np.minimum(scale * low, scale * high) + bias, np.maximum(scale * low, scale * high) + bias
    grid = None if found.grid is None or not scale else found.grid.scaled(np.asarray(scale))
    return Range(low - slack, high + slack, None if grid is None else grid.shifted(np.asarray(bias)))


def _reached(x: Range, steps: np.ndarray, axis: int | None, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Return how many thresholds both ends of the range have reached: of each element, unless that takes too long."""
    if axis is None and len(steps) > 1:
        ends = x.overall()
        counts = [(end >= steps).sum(axis=1).astype(np.float64) for end in (ends.low, ends.high)]
        return counts[0].min(), counts[1].max()
    if x.low.size * steps.shape[1] > _MOST_COMPARISONS:
        x = x.joined([other for other in range(rank) if other != axis])
    placed = steps[0] if axis is None else steps[along(np.arange(len(steps)), axis, rank)]
    low, high = ((end[..., None] >= placed).sum(axis=-1).astype(np.float64) for end in (x.low, x.high))
    return low, high


def _channel_axis(site: Site, rank: int, channels: int) -> int | None:
    """Return the axis that the rows of thresholds belong to; nothing where it makes no difference, or is not clear."""
    layout = site.attr_text("data_layout", "")
    if channels == 1:
        return None
    if layout:
        return rank - 1 if layout.endswith("C") else counted(1, rank)
    if rank != 3:
        return counted(1, rank)
    # Versions of QONNX differ in which axis they mean.
    dims = site.dims() or []
    fitting = [axis for axis in (1, 2) if dims[axis] == channels]
    return fitting[0] if len(fitting) == 1 else None


def _weighted_multi_threshold(site: Site) -> Range:
    """Follow the sum of the weights over all thresholds within the range, which may go up and down."""
    x, steps = site[0], constant(site.value(1))
    weights = constant(site.value(2)) if site.has(2) else np.ones(1)
    bias = site.attr_float("out_bias", 0.0)
    if steps is None or weights is None or site.rank() is None or np.isnan(steps).any() or not steps.shape[-1]:
        return UNKNOWN
    order = np.argsort(steps, axis=-1, kind="stable")
    sums = np.cumsum(np.take_along_axis(np.broadcast_to(weights, steps.shape).astype(np.float64), order, -1), axis=-1)
    ordered = np.take_along_axis(steps.astype(np.float64), order, -1)
    reached = (x.low[..., None] >= ordered).sum(-1, keepdims=True)
    everywhere = np.broadcast_to(sums, (*np.broadcast_shapes(x.low.shape, sums.shape[:-1]), sums.shape[-1]))
    start = np.where(reached > 0, np.take_along_axis(everywhere, np.maximum(reached - 1, 0), -1), 0.0)
    possible = (x.low[..., None] < ordered) & (x.high[..., None] >= ordered)
    low = np.minimum(start, np.where(possible, sums, np.inf).min(-1, keepdims=True))[..., 0]
    high = np.maximum(start, np.where(possible, sums, -np.inf).max(-1, keepdims=True))[..., 0]
    height = np.abs(np.broadcast_to(weights, steps.shape)).sum(axis=-1, dtype=np.float64).max(initial=0.0)
    slack = float(height) * (steps.shape[-1] * 2.0**-23)
    return add(_weighed(low, high, weights.astype(np.float64), slack), Range.point(np.asarray(bias)))


def _weighed(low: np.ndarray, high: np.ndarray, weights: np.ndarray, slack: float) -> Range:
    if (weights == np.rint(weights)).all() and slack < 1:
        return Range.integers(low, high)
    step = weights.reshape(-1)[0]
    grid = None
    if step and (weights == step).all():
        ends = np.rint(low / step), np.rint(high / step)
        grid = Grid.of(np.asarray(step), np.zeros(()), np.minimum(*ends), np.maximum(*ends))
    return Range(low - slack, high + slack, grid)


RANGES.attach({"MultiThreshold": _multi_threshold}, domains=QONNX_DOMAINS)
RANGES.attach({"MultiThreshold": _weighted_multi_threshold}, domains=(OUR_DOMAIN,))
