"""Rules of pooling and of reductions along axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_passes.numbers.grid import Grid, total
from onnx_passes.numbers.range import UNKNOWN, Range, exact_up_to
from onnx_passes.ops.definition import CHANNELS_LAST_DOMAIN, FINN_DOMAIN, GENERAL_DOMAINS
from onnx_passes.ops.ranges.convolutions import is_padded
from onnx_passes.ops.ranges.site import RANGES, Site
from onnx_passes.ops.windows import averaged


def _spatial(site: Site, *, last: bool = False) -> list[int] | None:
    rank = site.rank()
    if rank is None or rank < 3:
        return None
    return list(range(1, rank - 1)) if last else list(range(2, rank))


def _max_pool(site: Site) -> list[Range | None]:
    axes = _spatial(site)
    return [site[0].overall() if axes is None else site[0].joined(axes)]


def _max_pool_last(site: Site) -> Range:
    axes = _spatial(site, last=True)
    return site[0].overall() if axes is None else site[0].joined(axes)


def _average_pool(site: Site) -> Range:
    axes, window = _spatial(site), site.attr_ints("kernel_shape")
    if axes is None or window is None:
        return UNKNOWN
    x = site[0].joined(axes)
    count = int(np.prod(window))
    if is_padded(site) and site.attr_int("count_include_pad", 0):
        zero = None if x.grid is None else x.grid.holding(np.zeros(()))
        x = Range(np.minimum(x.low, 0.0), np.maximum(x.high, 0.0), zero)
    # What is divided by differs from place to place, at a border that does not count.
    if not site.attr_int("ceil_mode", 0) and (not is_padded(site) or site.attr_int("count_include_pad", 0)):
        return _mean_of(x, count, site)
    shares = averaged(site.node)
    found = _mean_of(x, count if shares is None else shares.multiple, site)
    return found.without_grid() if shares is None else found


def _mean_of(x: Range, count: int, site: Site) -> Range:
    """Return the range of the mean of so many elements of one range."""
    slack = x.size * ((count + 2) * site.unit)
    grid = x.grid
    if grid is not None:
        grid = Grid.of(grid.scale / count, grid.bias, *_multiples(grid.low, grid.high, count))
    return Range(x.low - slack, x.high + slack, grid)


def _multiples(low: np.ndarray, high: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Multiply integers, as floats if they are so large that the product might not be an integer of 64 bits."""
    if max(np.abs(low).max(), np.abs(high).max()) * count < 2.0**62:
        return low * count, high * count
    return low.astype(np.float64) * count, high.astype(np.float64) * count


def _global_average_pool(site: Site) -> Range:
    axes, shape = _spatial(site), site.dims()
    if axes is None or shape is None:
        return UNKNOWN
    return _mean_along(site, axes)


def _mean_along(site: Site, axes: Sequence[int]) -> Range:
    sizes = _sizes(site, axes)
    if sizes is None:
        joined = site[0].joined(axes)
        slack = joined.size * 1e-4
        return Range(joined.low - slack, joined.high + slack)
    found = _sum_along(site, axes, sizes)
    count = int(np.prod(sizes))
    grid = None if found.grid is None else found.grid.scaled(np.asarray(1.0 / count))
    slack = found.size / count * (2 * site.unit)
    return Range(found.low / count - slack, found.high / count + slack, grid)


def _sum_along(site: Site, axes: Sequence[int], sizes: Sequence[int]) -> Range:
    x = site[0]
    if not x.is_finite:
        return UNKNOWN
    low, high = total(x.low, axes, sizes), total(x.high, axes, sizes)
    grid = None if x.grid is None else x.grid.uniform(axes)
    terms = total(x.size, axes, sizes)
    slack = terms * ((int(np.prod(sizes)) + 1) * site.unit)
    if grid is not None:
        steps = None if x.grid is None else x.grid.exact_in
        if (
            steps is not None
            and (total(steps.astype(np.float64), axes, sizes) <= exact_up_to(site.node.outputs[0].dtype)).all()
        ):
            slack = 0.0
        bounds = [total(array.astype(np.float64), axes, sizes) for array in (grid.low, grid.high)]
        grid = Grid.of(grid.scale, total(grid.bias, axes, sizes), *bounds)
    return Range(low - slack, high + slack, grid)


def _sizes(site: Site, axes: Sequence[int]) -> list[int] | None:
    dims = site.dims() or []
    sizes = [size for axis in axes for size in (dims[axis],) if isinstance(size, int)]
    return sizes if len(sizes) == len(axes) and 0 not in sizes else None


def _axes(site: Site) -> list[int] | None:
    """Return the axes of a reduction, counted from the front."""
    rank = site.rank()
    given = site.integers(1) if site.has(1) else site.attr_ints("axes")
    if rank is None or (site.has(1) and given is None):
        return None
    if not given:
        return [] if site.attr_int("noop_with_empty_axes", 0) else list(range(rank))
    return sorted({axis % rank for axis in given})


def _dropped(site: Site, found: Range, axes: Sequence[int]) -> Range:
    rank = site.rank()
    if site.attr_int("keepdims", 1) or rank is None or not axes:
        return found
    return found.of_rank(rank).mapped(lambda array: np.squeeze(array, axis=tuple(axes)))


def _reduce_sum(site: Site) -> Range:
    axes = _axes(site)
    sizes = None if axes is None else _sizes(site, axes)
    return UNKNOWN if axes is None or sizes is None else _dropped(site, _sum_along(site, axes, sizes), axes)


def _reduce_mean(site: Site) -> Range:
    axes = _axes(site)
    return UNKNOWN if axes is None else _dropped(site, _mean_along(site, axes), axes)


def _reduce_extreme(site: Site) -> Range:
    axes = _axes(site)
    return site[0].overall() if axes is None else _dropped(site, site[0].joined(axes), axes)


def _reduce_to_size(site: Site) -> Range:
    return Range.of(0, np.inf)


def _sum_of_pixels(site: Site) -> Range:
    axes = _spatial(site, last=True)
    sizes = None if axes is None else _sizes(site, axes)
    return UNKNOWN if axes is None or sizes is None else _sum_along(site, axes, sizes)


def _quant_avg_pool(site: Site) -> Range:
    """Sum up a window and drop the lowest bits."""
    x, window = site[0], site.attr_int("kernel", 0)
    axes = _spatial(site, last=site.attr_text("data_layout", "NCHW").endswith("C"))
    grid = x.integer_grid
    if grid is None or axes is None or not window:
        return UNKNOWN
    grid = grid.joined(axes)
    most = (2 ** site.attr_int("ibits", 0) - 1) * window**2
    shift = max(0, most.bit_length() - site.attr_int("obits", 0))
    if grid is None:
        return UNKNOWN
    low, high = (array * window**2 >> shift for array in (grid.low, grid.high))
    return Range(low.astype(np.float64), high.astype(np.float64), Grid.integers(low, high))


RANGES.attach(
    {
        "AveragePool": _average_pool,
        "GlobalAveragePool": _global_average_pool,
        "GlobalMaxPool": _max_pool,
        "MaxPool": _max_pool,
        "ReduceL1": _reduce_to_size,
        "ReduceL2": _reduce_to_size,
        "ReduceMax": _reduce_extreme,
        "ReduceMean": _reduce_mean,
        "ReduceMin": _reduce_extreme,
        "ReduceSum": _reduce_sum,
        "ReduceSumSquare": _reduce_to_size,
    }
)
RANGES.attach({"MaxPoolNHWC": _max_pool_last, "QuantAvgPool2d": _quant_avg_pool}, domains=GENERAL_DOMAINS)
RANGES.attach({"MaxPool": _max_pool_last}, domains=(CHANNELS_LAST_DOMAIN,))
RANGES.attach({"GlobalAccPool": _sum_of_pixels, "UpsampleNearestNeighbour": _max_pool_last}, domains=(FINN_DOMAIN,))
