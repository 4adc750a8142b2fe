"""Rules of normalizations."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from onnx_passes.analysis.ranges.elementwise import add, multiply
from onnx_passes.analysis.ranges.grid import along
from onnx_passes.analysis.ranges.range import UNKNOWN, Range
from onnx_passes.analysis.ranges.site import RANGES, Site, axis_of
from onnx_passes.ops.definition import CHANNELS_LAST_DOMAIN
from onnx_passes.ops.normalization import Normalization

_SLACK = 1e-4
"""Room for rounding in what is divided by a deviation."""


def _batch_normalization(site: Site) -> Sequence[Range | None]:
    return [_affine(site, 1)]


def _batch_normalization_last(site: Site) -> Sequence[Range | None]:
    return [_affine(site, -1)]


def _affine(site: Site, axis: int) -> Range:
    """Fold the statistics into a factor and an offset for each channel."""
    rank = site.rank()
    normal = Normalization.of(site.node, [site.number(index) for index in range(1, 5)])
    if rank is None or rank < 2 or isinstance(normal, str):
        return UNKNOWN
    factor, offset = along(normal.factor.near, axis, rank), along(normal.offset.near, axis, rank)
    x = site[0]
    found = add(multiply(x, Range(factor, factor)), Range(offset, offset))
    with np.errstate(invalid="ignore"):
        terms = np.nan_to_num(x.size * np.abs(factor), nan=0.0, posinf=math.inf)
    terms = (
        terms
        + np.abs(along((normal.mean * normal.factor).near, axis, rank))
        + np.abs(along(normal.shift.near, axis, rank))
    )
    slack = terms * (8 * site.unit)
    return Range(found.low - slack, found.high + slack, found.grid)


def _normalized(site: Site, count: int | None, gamma: Range, beta: Range, *, centred: bool) -> Range:
    """Bound the deviation of one of so many elements from their mean, in standard deviations.

    Runtimes subtract the square of the mean from the mean of the squares: the error of that can be all of a small
    variance, and only ``epsilon`` is left of it then. Some multiply before they subtract the mean, so that what is
    rounded there is divided by as little.
    """
    x = site[0]
    if count is None or count < 1 or not x.is_finite:
        return UNKNOWN
    most_x, units = float(x.size.max()), 2 * (count + 4) * site.unit if centred else 0.0
    error = most_x**2 * units
    epsilon = site.attr_float("epsilon", 1e-5)
    if epsilon <= 0:
        return UNKNOWN
    most = math.sqrt((count - 1 if centred else count) * max(1.0, error / epsilon)) * (1 + _SLACK) + _SLACK
    most += most_x * units / math.sqrt(epsilon)
    found = multiply(Range.of(-most, most), gamma)
    return add(found, beta).without_grid()


def _count(site: Site, axes: Sequence[int]) -> int | None:
    dims = site.dims() or []
    sizes = [dims[axis] for axis in axes]
    return (
        math.prod(size for size in sizes if isinstance(size, int)) if all(isinstance(s, int) for s in sizes) else None
    )


def _layer_normalization(site: Site) -> Sequence[Range | None]:
    axis, rank = axis_of(site, -1), site.rank()
    if axis is None or rank is None:
        return []
    beta = site[2] if site.has(2) else Range.of(0, 0)
    return [_normalized(site, _count(site, range(axis, rank)), site[1], beta, centred=True)]


def _rms_normalization(site: Site) -> Sequence[Range | None]:
    axis, rank = axis_of(site, -1), site.rank()
    if axis is None or rank is None:
        return []
    return [_normalized(site, _count(site, range(axis, rank)), site[1], Range.of(0, 0), centred=False)]


def _instance_normalization(site: Site) -> Range:
    rank = site.rank()
    if rank is None or rank < 3:
        return UNKNOWN
    gamma, beta = (_by_channel(site[index], rank) for index in (1, 2))
    return _normalized(site, _count(site, range(2, rank)), gamma, beta, centred=True)


def _by_channel(found: Range, rank: int) -> Range:
    return found.mapped(lambda array: along(array.reshape(-1), 1, rank))


def _softmax(site: Site) -> Range:
    return Range.of(0, 1 + 1e-6)


def _log_softmax(site: Site) -> Range:
    return Range.of(-math.inf, 1e-6)


def _hardmax(site: Site) -> Range:
    return Range.integers(0, 1)


RANGES.attach(
    {
        "BatchNormalization": _batch_normalization,
        "Hardmax": _hardmax,
        "InstanceNormalization": _instance_normalization,
        "LayerNormalization": _layer_normalization,
        "LogSoftmax": _log_softmax,
        "RMSNormalization": _rms_normalization,
        "Softmax": _softmax,
    }
)
RANGES.attach({"BatchNormalization": _batch_normalization_last}, domains=(CHANNELS_LAST_DOMAIN,))
