"""Transposed convolutions of integers, without products with inserted zeros."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import dimension, rank
from onnx_passes.ops.facts.sums import Bounds
from onnx_passes.passes.export.integer_products import NO_INTEGERS, TOO_LARGE, convolved, with_bias
from onnx_passes.passes.export.integer_twins import IntegerTwins
from onnx_passes.passes.integers.containers import bounds_of, is_exact_product


@dataclass(frozen=True)
class _Geometry:
    """The geometry of a transposed convolution, axis by axis."""

    sizes: list[int]
    strides: list[int]
    dilations: list[int]
    starts: list[int]
    ends: list[int]
    kernel: tuple[int, ...]

    @property
    def reach(self) -> list[int]:
        """Return the extent of the kernel beyond its first element."""
        return [(size - 1) * distance for size, distance in zip(self.kernel, self.dilations, strict=True)]

    @property
    def extents(self) -> list[int]:
        """Return the sizes of the result."""
        given = zip(self.sizes, self.strides, self.reach, self.starts, self.ends, strict=True)
        return [(size - 1) * stride + reach + 1 - start - end for size, stride, reach, start, end in given]


@dataclass(frozen=True)
class _Part:
    """Kernel elements along an axis that fall into one stride; a gap between them is None."""

    elements: list[int | None]
    offset: int


def conv_transpose(twins: IntegerTwins, node: ir.Node) -> ir.Value | str:
    """Flip the kernel for stride one; otherwise split it into parts of one stride, and tile their results."""
    x, w = node.inputs[0], node.inputs[1]
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    assert x is not None
    assert w is not None
    held, left = constant(w), twins.bounds(x)
    if held is None or left is None or twins.bounds(w) is None or (bias is not None and twins.bounds(bias) is None):
        return NO_INTEGERS
    geometry = _geometry(node, x, held.shape[2:])
    if geometry is None:
        return "sizes are not known, or its padding depends on auto_pad or output_shape"
    if not is_exact_product(node, twins.bounds):
        return TOO_LARGE
    pads = [reach - start for reach, start in zip(geometry.reach, geometry.starts, strict=True)]
    pads += [reach - end for reach, end in zip(geometry.reach, geometry.ends, strict=True)]
    if max(geometry.strides) == 1 and min(pads) >= 0:
        turned = np.flip(held, axis=tuple(range(2, held.ndim)))
        found = _convolution(twins, node, (x, left), turned, dilations=geometry.dilations, pads=pads)
    else:
        found = _tiled_parts(twins, node, (x, left), held, geometry)
    return found if bias is None or isinstance(found, str) else with_bias(twins, found, bias, held.ndim)


def _geometry(node: ir.Node, x: ir.Value, kernel: tuple[int, ...]) -> _Geometry | None:
    attributes, axes = node.attributes, len(kernel)
    sizes = [dimension(x, axis) for axis in range(2, rank(x) or 0)]
    known = [size for size in sizes if size is not None]
    if len(known) != axes or attributes.get_ints("output_shape"):
        return None
    if attributes.get_string("auto_pad", "NOTSET") != "NOTSET":
        return None
    pads = list(attributes.get_ints("pads") or [0] * 2 * axes)
    more = list(attributes.get_ints("output_padding") or [0] * axes)
    return _Geometry(
        known,
        list(attributes.get_ints("strides") or [1] * axes),
        list(attributes.get_ints("dilations") or [1] * axes),
        pads[:axes],
        [end - added for end, added in zip(pads[axes:], more, strict=True)],
        kernel,
    )


def _convolution(
    twins: IntegerTwins, node: ir.Node, x: tuple[ir.Value, Bounds], weights: np.ndarray, **attributes: list[int]
) -> ir.Value | str:
    """Convolve with weights whose second axis is that of the results."""
    group = node.attributes.get_int("group", 1)
    given, depth, *kernel = weights.shape
    filters = weights.reshape(group, given // group, depth, *kernel).swapaxes(1, 2)
    filters = np.ascontiguousarray(filters.reshape(group * depth, given // group, *kernel))
    right = bounds_of(filters)
    assert node.inputs[1] is not None
    assert right is not None
    held = twins.op.initializer(filters, f"{node.inputs[1].name}_turned")
    return convolved(twins, {"group": group, **attributes}, x, (held, right))


def _tiled_parts(
    twins: IntegerTwins, node: ir.Node, x: tuple[ir.Value, Bounds], weights: np.ndarray, geometry: _Geometry
) -> ir.Value | str:
    """Sum the parts of the kernel: each computes for a pixel a patch as channels, and patches do not overlap."""
    given = zip(geometry.kernel, geometry.strides, geometry.dilations, strict=True)
    chosen = list(product(*(list(_parts(*axis)) for axis in given)))
    # The canvas need not contain the cropped end, but it contains whole patches.
    spread = [size * stride for size, stride in zip(geometry.sizes, geometry.strides, strict=True)]
    ends = [start + extent for start, extent in zip(geometry.starts, geometry.extents, strict=True)]
    canvas = [
        max(ends[axis], spread[axis] + max(parts[axis].offset for parts in chosen)) for axis in range(len(spread))
    ]
    channels = weights.shape[1] * node.attributes.get_int("group", 1)
    found: list[ir.Value] = []
    for parts in chosen:
        filters = _elements(weights, parts)
        pointwise = filters.reshape(len(filters), -1, *(1,) * len(parts))
        patches = _convolution(twins, node, x, pointwise)
        if isinstance(patches, str):
            return patches
        image = _tiled(twins, patches, (channels, *filters.shape[2:]), geometry)
        before = [part.offset for part in parts]
        after = [whole - size - part.offset for whole, size, part in zip(canvas, spread, parts, strict=True)]
        found.append(_padded(twins, image, [0, 0, *before], [0, 0, *after]))
    result = reduce(twins.op.Add, found)
    if canvas == geometry.extents:
        return result
    axes = np.arange(2, 2 + len(canvas), dtype=np.int64)
    return twins.op.Slice(result, np.array(geometry.starts, np.int64), np.array(ends, np.int64), axes)


def _parts(size: int, stride: int, dilation: int) -> Iterator[_Part]:
    """Split the kernel elements along an axis by the stride that they fall into."""
    by_place = {index * dilation: index for index in range(size)}
    for first in sorted({place // stride * stride for place in by_place}):
        places = [place for place in range(first, first + stride) if place in by_place]
        yield _Part([by_place.get(place) for place in range(places[0], places[-1] + 1)], places[0])


def _elements(weights: np.ndarray, parts: Sequence[_Part]) -> np.ndarray:
    for axis, part in enumerate(parts, 2):
        chosen = np.take(weights, [element or 0 for element in part.elements], axis)
        kept = np.array([element is not None for element in part.elements])
        weights = chosen * kept.reshape(-1, *(1,) * (weights.ndim - axis - 1))
    return weights.astype(np.float32)


def _tiled(twins: IntegerTwins, patches: ir.Value, shape: tuple[int, ...], geometry: _Geometry) -> ir.Value:
    """Tile patches, which are channels, to an image; gaps stay zero if the stride is larger."""
    channels, *patch = shape
    axes = len(patch)
    apart = twins.op.Reshape(patches, np.array([0, *shape, *geometry.sizes], np.int64))
    order = [0, 1, *(place for axis in range(2, 2 + axes) for place in (axis + axes, axis))]
    beside = twins.op.Transpose(apart, perm=order)
    gaps = [gap for size, stride in zip(patch, geometry.strides, strict=True) for gap in (0, stride - size)]
    filled = _padded(twins, beside, [0] * len(order), [0, 0, *gaps])
    spread = [size * stride for size, stride in zip(geometry.sizes, geometry.strides, strict=True)]
    return twins.op.Reshape(filled, np.array([0, channels, *spread], np.int64))


def _padded(twins: IntegerTwins, image: ir.Value, before: list[int], after: list[int]) -> ir.Value:
    if not any(before) and not any(after):
        return image
    return twins.op.Pad(image, np.array([*before, *after], np.int64), np.zeros((), np.int32))
