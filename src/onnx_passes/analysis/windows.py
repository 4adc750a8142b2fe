"""Where the windows of a convolution or of pooling meet the image, and where its padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.shapes import dimension, rank
from onnx_passes.ops.windows import SlidingWindows

_LARGEST_MULTIPLE = 1 << 16


def windows_of(node: ir.Node, kernel: Sequence[int]) -> SlidingWindows | None:
    """Return how the windows of a node slide over its first input; nothing where sizes are not known."""
    sizes, axes = image_sizes(node), len(kernel)
    if sizes is None or len(sizes) != axes:
        return None
    pads = pads_of(node, kernel)
    if pads is None or min(pads, default=0) < 0:
        return None
    strides = tuple(node.attributes.get_ints("strides") or (1,) * axes)
    dilations = tuple(node.attributes.get_ints("dilations") or (1,) * axes)
    return SlidingWindows(tuple(kernel), strides, tuple(pads), dilations, bool(node.attributes.get_int("ceil_mode", 0)))


def pads_of(node: ir.Node, kernel: Sequence[int]) -> list[int] | None:
    """Return the padding of a node, computed where it is left open; nothing where that needs unknown sizes."""
    axes, mode = len(kernel), node.attributes.get_string("auto_pad", "NOTSET")
    if mode == "VALID" or not mode.startswith("SAME"):
        return [0] * 2 * axes if mode == "VALID" else list(node.attributes.get_ints("pads") or (0,) * 2 * axes)
    strides = node.attributes.get_ints("strides") or (1,) * axes
    dilations = node.attributes.get_ints("dilations") or (1,) * axes
    reach = [step * (size - 1) + 1 for step, size in zip(dilations, kernel, strict=True)]
    # Windows that move by single steps are as many as places, however many these are.
    sizes = image_sizes(node) or ([1] * axes if all(stride == 1 for stride in strides) else None)
    if sizes is None or len(sizes) != axes:
        return None
    needed = [
        max((-(-size // stride) - 1) * stride + extent - size, 0)
        for size, stride, extent in zip(sizes, strides, reach, strict=True)
    ]
    less, more = [each // 2 for each in needed], [each - each // 2 for each in needed]
    return [*less, *more] if mode == "SAME_UPPER" else [*more, *less]


def image_sizes(node: ir.Node) -> list[int] | None:
    """Return the sizes of an image behind batch and channels, if all are known."""
    x = node.inputs[0]
    found = [dimension(x, axis) for axis in range(2, rank(x) or 0)]
    known = [size for size in found if size is not None]
    return known if found and len(known) == len(found) else None


def met(windows: SlidingWindows, sizes: Sequence[int]) -> list[np.ndarray]:
    """Tell for each axis, as ``[windows, taps]``, which taps of which window meet the image."""
    found: list[np.ndarray] = []
    for axis, size in enumerate(sizes):
        place = windows.starts(axis, size)[:, None] + windows.offsets(axis) - windows.padding(axis)[0]
        found.append((place >= 0) & (place < size))
    return found


def counts(windows: SlidingWindows, sizes: Sequence[int]) -> np.ndarray:
    """Return how many elements of the image each window holds, in the shape of the windows."""
    total = np.ones((1,) * len(sizes), np.int64)
    for axis, inside in enumerate(met(windows, sizes)):
        total = total * inside.sum(axis=1).reshape([-1 if other == axis else 1 for other in range(len(sizes))])
    return total


class Averaged(NamedTuple):
    """What averages of windows are in terms of their sums: each is ``sum * factors / multiple``."""

    factors: np.ndarray
    multiple: int


def averaged(node: ir.Node) -> Averaged | None:
    """Return by what the windows of an AveragePool are divided, as integer factors of one fraction.

    Nothing where sizes are not known, where padding counts for windows that hang over it, which runtimes divide
    differently, or where no moderate number is a multiple of all numbers of elements.
    """
    kernel = node.attributes.get_ints("kernel_shape")
    windows, sizes = None if not kernel else windows_of(node, kernel), image_sizes(node)
    if windows is None or sizes is None:
        return None
    held = counts(windows, sizes)
    if node.attributes.get_int("count_include_pad", 0):
        if windows.ceil:
            return None
        held = np.full(held.shape, int(np.prod(windows.kernel)))
    if (held == 0).any():
        return None
    multiple = int(np.lcm.reduce(held.reshape(-1)))
    return Averaged(multiple // held, multiple) if multiple <= _LARGEST_MULTIPLE else None
