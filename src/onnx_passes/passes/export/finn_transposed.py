"""Transposed convolutions in FINN: a convolution computes patches, which are tiled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import static_shape

_IMAGE = 4


@dataclass(frozen=True)
class TransposedPatches:
    """A convolution that computes, for each window of pixels, a patch of the result as channels.

    ``filters`` has the shape ``[features of a patch, channels, height, width]``, with features in the order row, column
    and channel of the patch; ``size`` is the size of a patch.
    """

    filters: np.ndarray
    pads: list[int]
    size: tuple[int, int]


@dataclass(frozen=True)
class _Axis:
    """One axis of a transposed convolution: the pixels that affect a patch, and the kernel element for each."""

    first: int
    last: int
    elements: np.ndarray
    after: int


def patches_of(node: ir.Node) -> TransposedPatches | str:
    """Return a transposed convolution as a convolution of patches, or the reason why that is impossible."""
    attributes, weights = node.attributes, constant(node.inputs[1])
    shape, result = static_shape(node.inputs[0]), static_shape(node.outputs[0])
    if shape is None or result is None or len(shape) != _IMAGE:
        return "it is not of an image of known size"
    if weights is None or any(constant(value) is None for value in node.inputs[2:] if value is not None):
        return "its weights are not constant"
    if attributes.get_string("auto_pad", "NOTSET") != "NOTSET" or attributes.get_ints("output_shape"):
        return "its padding depends on auto_pad or output_shape"
    if attributes.get_int("group", 1) != 1 or max(attributes.get_ints("dilations") or (1,)) > 1:
        return "it has groups or dilations"
    strides = attributes.get_ints("strides") or (1, 1)
    pads = attributes.get_ints("pads") or (0, 0, 0, 0)
    if any(size % stride for size, stride in zip(result[2:], strides, strict=True)):
        return "the size of its result is not a multiple of the strides"
    down, across = (_axis(weights.shape[2 + i], strides[i], pads[i], shape[2 + i], result[2 + i]) for i in (0, 1))
    if min(-down.first, -across.first, down.after, across.after) < 0:
        return "its padding is larger than its kernel"
    filters = _filters(weights, down.elements, across.elements)
    return TransposedPatches(filters, [-down.first, -across.first, down.after, across.after], (strides[0], strides[1]))


def _axis(kernel: int, stride: int, start: int, size: int, extent: int) -> _Axis:
    """Return the pixels for each place in patch ``i``: pixel ``i + m`` with element ``place + start - m * stride``."""
    places = np.arange(stride) + start
    first, last = int(-((kernel - 1 - places) // stride).max()), int((places // stride).max())
    elements = places[:, None] - np.arange(first, last + 1)[None, :] * stride
    return _Axis(first, last, elements, last + extent // stride - size)


def _filters(weights: np.ndarray, down: np.ndarray, across: np.ndarray) -> np.ndarray:
    """Return the filters of patches, with zeros for pixels without a kernel element."""
    channels, features, *kernel = weights.shape
    padded = np.zeros((channels, features, kernel[0] + 1, kernel[1] + 1), weights.dtype)
    padded[:, :, :-1, :-1] = weights
    rows, columns = (
        np.where((at >= 0) & (at < size), at, size) for at, size in ((down, kernel[0]), (across, kernel[1]))
    )
    chosen = padded[:, :, rows[:, None, :, None], columns[None, :, None, :]]
    patch = chosen.transpose(2, 3, 1, 0, 4, 5)
    return np.ascontiguousarray(patch.reshape(-1, channels, *patch.shape[4:]))
