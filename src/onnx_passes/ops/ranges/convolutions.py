"""Rules of convolutions: matrix products with the taps of a kernel summed up, and zeros around the image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product as combinations

import numpy as np
import onnx_ir as ir

from onnx_passes.numbers.grid import Grid, along, same, shrink, spanned
from onnx_passes.numbers.range import UNKNOWN, Range, exact_up_to
from onnx_passes.ops.definition import CHANNELS_LAST_DOMAIN
from onnx_passes.ops.ranges.elementwise import either
from onnx_passes.ops.ranges.products import Bounds, of_grid, of_range, with_addend
from onnx_passes.ops.ranges.site import RANGES, Site
from onnx_passes.ops.windows import image_sizes, met, windows_of


@dataclass(frozen=True)
class _Kernel:
    """Weights as ``[group, outputs, inputs, taps]``, one entry for each kernel that can be met."""

    groups: int
    outputs: int
    inputs: int
    taps: int
    outside: bool
    """Whether taps may meet nothing, as at a border or between the steps of a transposed convolution."""

    @property
    def terms(self) -> int:
        return self.inputs * self.taps

    def weights(self, array: np.ndarray) -> np.ndarray:
        """Bring weights, or what has their rank, into the form of the kernel."""
        rank = array.ndim
        full = (self.groups * self.outputs, self.inputs, *array.shape[2:]) if rank else ()
        shaped = np.broadcast_to(array, full) if rank else array
        return shaped.reshape(self.groups, self.outputs, self.inputs, -1)

    def channels(self, array: np.ndarray) -> np.ndarray:
        """Bring what is known of the input, by channel, into the form of the kernel: ``[group, inputs]``."""
        flat = array.reshape(-1)
        return np.broadcast_to(flat, (self.groups * self.inputs,)).reshape(self.groups, self.inputs)

    def total(self, weights: Bounds, x: Bounds) -> Bounds:
        """Return bounds of the sum, for each output ``[group, outputs]``."""
        if self.outside:
            x = x.widened_to(0.0)
        low, high = self.channels(x.low), self.channels(x.high)
        share = self.taps // weights.low.shape[-1]
        if weights.is_point:
            above = np.maximum(weights.low, 0).sum(-1) * share
            below = np.minimum(weights.low, 0).sum(-1) * share
            return Bounds(
                _summed(above, low) + _summed(below, high),
                _summed(above, high) + _summed(below, low),
            )
        ends = [w * c[:, None, :, None] for w in weights for c in (low, high)]
        least, most = spanned(ends)
        return Bounds(least.sum((-1, -2)) * share, most.sum((-1, -2)) * share)

    def sizes(self, weights: Bounds, x: Bounds) -> np.ndarray:
        """Return the bound of the sum of the absolute values of all products."""
        share = self.taps // weights.low.shape[-1]
        return _summed(weights.size.sum(-1) * share, self.channels(x.size))


def _summed(weights: np.ndarray, channels: np.ndarray) -> np.ndarray:
    return np.matmul(weights, channels[:, :, None])[:, :, 0]


def convolution(site: Site, x: Range, w: Range, kernels: list[tuple[_Kernel, tuple[slice, ...]]], rank: int) -> Range:
    """Return the range of a convolution: of all kernels that an element of the result can come from."""
    spatial = range(2, rank)
    x = x.joined([0, *spatial])
    if not (x.is_finite and w.is_finite):
        return UNKNOWN
    dtype = site.node.outputs[0].dtype
    parts = [(kernel, w.mapped(lambda array, taps=taps: _sliced(array, taps))) for kernel, taps in kernels]
    found = reduce(either, [_convolved(site, kernel, x, part, exact_up_to(dtype), rank) for kernel, part in parts])
    if not site.has(2):
        return found
    addend = site[2].mapped(lambda array: along(array.reshape(-1), 1, rank))
    return with_addend(found, addend, kernels[0][0].terms, site.unit, exact_up_to(dtype))


def _sliced(array: np.ndarray, taps: tuple[slice, ...]) -> np.ndarray:
    index = tuple(tap if size > 1 else slice(None) for tap, size in zip(taps, array.shape[2:], strict=True))
    return array[(slice(None), slice(None), *index)]


def _convolved(site: Site, kernel: _Kernel, x: Range, w: Range, exact: float, rank: int) -> Range:
    weights, channels = of_range(w), of_range(x)
    shaped = _shaped(kernel, weights)
    grid = _grid(site, kernel, x.grid, w.grid, rank)
    if grid is not None and _is_exact(kernel, x.grid, w.grid, exact):
        return Range(*grid.bounds, grid)
    total = kernel.total(shaped, channels)
    slack = kernel.sizes(shaped, channels) * ((kernel.terms + 2) * site.unit * 1.01)
    return Range(
        along((total.low - slack).reshape(-1), 1, rank), along((total.high + slack).reshape(-1), 1, rank), grid
    )


def _shaped(kernel: _Kernel, weights: Bounds) -> Bounds:
    low = kernel.weights(weights.low)
    return Bounds(low, low if weights.is_point else kernel.weights(weights.high))


def _is_exact(kernel: _Kernel, x: Grid | None, w: Grid | None, exact: float) -> bool:
    steps = None if x is None else x.exact_in, None if w is None else w.exact_in
    if x is None or w is None or steps[0] is None or steps[1] is None:
        return False
    if (kernel.inputs > 1 and x.scale.size > 1) or w.scale.size != w.scale.shape[0]:
        return False
    sizes = [step.astype(np.float64) for step in steps if step is not None]
    return bool((kernel.sizes(_shaped(kernel, Bounds(sizes[1], sizes[1])), Bounds(sizes[0], sizes[0])) <= exact).all())


def _grid(site: Site, kernel: _Kernel, x: Grid | None, w: Grid | None, rank: int) -> Grid | None:
    if x is None or w is None:
        return None
    x, w = x.centred() or x, w.centred() or w
    if kernel.inputs > 1 and x.scale.size > 1:
        x = x.uniform([1]) or x
    w = w.uniform(range(2, rank)) or w
    if w.bias.any() or (x.bias.any() and not w.is_point):
        return None
    scale, bias = _scale(kernel, x.scale, w.scale), np.zeros((1,) * rank)
    if x.bias.any():
        bias = _bias_behind(site, kernel, w.bounds[0], x.bias)
    if scale is None or bias is None:
        return None
    total = kernel.total(_shaped(kernel, of_grid(w)), of_grid(x))
    scale, low, high = (along(array.reshape(-1), 1, rank) for array in (scale, total.low, total.high))
    return Grid.of(scale, bias, low, high)


def _bias_behind(site: Site, kernel: _Kernel, weights: np.ndarray, bias: np.ndarray) -> np.ndarray | None:
    shape = site.shape(1)
    if not kernel.outside:
        values, given = _shaped(kernel, Bounds(weights, weights)), Bounds(bias, bias)
        return along(kernel.total(values, given).low.reshape(-1), 1, weights.ndim)
    # Where a tap meets nothing the value is 0, not the bias.
    if site.node.op_type != "Conv" or site.node.domain or shape is None:
        return None
    return bias_behind(site.node, np.broadcast_to(weights, shape), bias)


def bias_behind(node: ir.Node, weights: np.ndarray, bias: np.ndarray) -> np.ndarray | None:
    """Return what a bias of the input of a Conv adds to each output: less at a border, where zeros are padded.

    The bias may vary along channels. Nothing is returned where there is padding, and sizes are not known.
    """
    channels, inputs = weights.shape[:2]
    group = node.attributes.get_int("group", 1)
    each = np.broadcast_to(bias.reshape(-1), (inputs * group,)).reshape(group, inputs)
    seen = np.repeat(each, channels // group, axis=0)
    if not is_padded(Site(node, ())):
        return along((weights.reshape(channels, inputs, -1).sum(axis=2) * seen).sum(axis=1), 1, weights.ndim)
    taps = (weights * seen.reshape(channels, inputs, *(1,) * (weights.ndim - 2))).sum(axis=1)
    windows, sizes = windows_of(node, weights.shape[2:]), image_sizes(node)
    if windows is None or sizes is None:
        return None
    for inside in met(windows, sizes):
        # The first axis of taps goes, that of windows comes last: in the end all are in their order.
        taps = np.tensordot(taps, inside.astype(np.float64), axes=([1], [1]))
    return shrink(taps[None])


def _scale(kernel: _Kernel, x: np.ndarray, w: np.ndarray) -> np.ndarray | None:
    """Return the scale for each output: it must not vary along what is summed up."""
    if x.size == 1 and w.size == w.shape[0]:
        return x.reshape(-1) * w.reshape(-1)
    by_input = kernel.weights(w) * kernel.channels(x)[:, None, :, None]
    first = by_input[:, :, :1, :1]
    return first if same(by_input, np.broadcast_to(first, by_input.shape)) else None


def _conv(site: Site) -> Range:
    rank, shape, groups = site.rank(0), site.shape(1), site.attr_int("group", 1)
    if rank is None or shape is None or len(shape) != rank or rank < 3 or groups < 1:
        return UNKNOWN
    kernel = _Kernel(groups, shape[0] // groups, shape[1], int(np.prod(shape[2:])), is_padded(site))
    return convolution(site, site[0], site[1], [(kernel, (slice(None),) * (rank - 2))], rank)


def _conv_transpose(site: Site) -> Range:
    rank, shape = site.rank(0), site.shape(1)
    if rank is None or shape is None or len(shape) != rank or rank < 3:
        return UNKNOWN
    return _spread(site, site[0], site[1], shape)


def _spread(site: Site, x: Range, weights: Range, shape: Sequence[int]) -> Range:
    """Return what a transposed convolution gives, all with channels first; ``shape`` is that of the weights."""
    rank = len(shape)
    groups = site.attr_int("group", 1)
    inputs, outputs, extent = shape[0] // groups, shape[1], shape[2:]
    strides = site.attr_ints("strides") or [1] * (rank - 2)
    if any(step != 1 for step in site.attr_ints("dilations") or []):
        strides = [1] * (rank - 2)
    # An element of the result meets the taps that are a whole number of strides apart.
    phases = [
        [slice(start, None, step) for start in range(min(step, size))]
        for step, size in zip(strides, extent, strict=True)
    ]
    kernels: list[tuple[_Kernel, tuple[slice, ...]]] = []
    for taps in combinations(*phases):
        met = [len(range(size)[tap]) for tap, size in zip(taps, extent, strict=True)]
        kernels.append((_Kernel(groups, outputs, inputs, int(np.prod(met)), True), taps))

    def turned(array: np.ndarray) -> np.ndarray:
        full = np.broadcast_to(array, (shape[0], shape[1], *array.shape[2:]))
        grouped = full.reshape(groups, inputs, outputs, *array.shape[2:])
        return np.swapaxes(grouped, 1, 2).reshape(groups * outputs, inputs, *array.shape[2:])

    return convolution(site, x, weights.mapped(turned), kernels, rank)


def is_padded(site: Site) -> bool:
    """Tell whether there may be anything around the image."""
    automatic = site.attr_text("auto_pad", "NOTSET")
    if automatic in ("SAME_UPPER", "SAME_LOWER"):
        return True
    return automatic == "NOTSET" and any(site.attr_ints("pads") or [])


def channels_first(found: Range, rank: int) -> Range:
    """Move the channels from the last axis to the second."""
    return found.mapped(lambda array: np.moveaxis(array, -1, 1) if array.ndim == rank else array)


def channels_last(found: Range, rank: int) -> Range:
    """Move the channels from the second axis to the last."""
    return found.of_rank(rank).mapped(lambda array: np.moveaxis(array, 1, -1))


def _conv_channels_last(site: Site) -> Range:
    rank, shape = site.rank(0), site.shape(1)
    if rank is None or shape is None or len(shape) != rank or rank < 3:
        return UNKNOWN
    groups = site.attr_int("group", 1)
    kernel = _Kernel(groups, shape[0] // groups, shape[-1], int(np.prod(shape[1:-1])), is_padded(site))
    x, w = channels_first(site[0], rank), channels_first(site[1], rank)
    found = convolution(site, x, w, [(kernel, (slice(None),) * (rank - 2))], rank)
    return found if found is UNKNOWN else channels_last(found, rank)


def _conv_transpose_channels_last(site: Site) -> Range:
    rank, shape = site.rank(0), site.shape(1)
    if rank is None or shape is None or len(shape) != rank or rank < 3:
        return UNKNOWN
    x, weights = channels_first(site[0], rank), channels_first(site[1], rank)
    found = _spread(site, x, weights, [shape[0], shape[-1], *shape[1:-1]])
    return found if found is UNKNOWN else channels_last(found, rank)


RANGES.attach({"Conv": _conv, "ConvTranspose": _conv_transpose})
RANGES.attach(
    {"Conv": _conv_channels_last, "ConvTranspose": _conv_transpose_channels_last}, domains=(CHANNELS_LAST_DOMAIN,)
)
