"""Sliding windows: where they look, and how to gather what they see with standard operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.shapes import dimension, rank
from onnx_passes.rewrite.refusal import Refusal, no

PADDING = -1
"""Where a window looks beside the input: also the place of the one element that is padded with."""


@dataclass(frozen=True)
class Window:
    """A window along one axis: ``places[o, k]`` is what element ``k`` of the window sees at output ``o``.

    ``counted`` says how many elements of the window are in the input or its padding: rounding up may add others.
    """

    size: int
    places: np.ndarray
    counted: np.ndarray

    @property
    def outputs(self) -> int:
        """Return how many places the window stands at."""
        return self.places.shape[0]

    @property
    def is_whole(self) -> bool:
        """Tell whether each output sees just the element at its own place."""
        return self.places.shape == (self.size, 1) and bool((self.places[:, 0] == np.arange(self.size)).all())

    @property
    def seen(self) -> np.ndarray:
        """Count the elements of the input that the window sees at each place."""
        return np.sum(self.places != PADDING, axis=1)


def windows_of(x: ir.Value, node: ir.Node, kernel: Sequence[int]) -> list[Window] | Refusal:
    """Read the windows of a convolution or pooling along all spatial axes of its input."""
    dims = len(kernel)
    if rank(x) != dims + 2:
        return no("the rank of the input is not known", at=x)
    strides = node.attributes.get_ints("strides") or (1,) * dims
    dilations = node.attributes.get_ints("dilations") or (1,) * dims
    pads = node.attributes.get_ints("pads") or (0,) * (2 * dims)
    mode = node.attributes.get_string("auto_pad", "NOTSET")
    ceil = bool(node.attributes.get_int("ceil_mode", 0))
    found: list[Window] = []
    for axis in range(dims):
        size = dimension(x, axis + 2)
        if not size:
            return no("the spatial sizes of the input are not known, or zero", at=x)
        reach, stride = (kernel[axis] - 1) * dilations[axis] + 1, strides[axis]
        begin, end = (pads[axis], pads[axis + dims]) if mode == "NOTSET" else (0, 0)
        if mode in ("SAME_UPPER", "SAME_LOWER"):
            total = max((-(-size // stride) - 1) * stride + reach - size, 0)
            begin = total // 2 if mode == "SAME_UPPER" else total - total // 2
            end = total - begin
        if begin < 0 or end < 0 or size + begin + end < reach:
            return no("the window does not fit into the input", at=node)
        outputs = _outputs(size, begin, end, reach, stride, ceil=ceil and mode == "NOTSET")
        steps = np.arange(outputs)[:, None] * stride + np.arange(kernel[axis])[None, :] * dilations[axis]
        inside = (steps >= begin) & (steps < begin + size)
        counted = np.sum(steps < begin + size + end, axis=1)
        found.append(Window(size, np.where(inside, steps - begin, PADDING), counted))
    return found


def _outputs(size: int, begin: int, end: int, reach: int, stride: int, *, ceil: bool) -> int:
    room = size + begin + end - reach
    outputs = (-(-room // stride) if ceil else room // stride) + 1
    # A window that would start in the padding after the input is left out.
    return outputs - 1 if ceil and (outputs - 1) * stride >= size + begin else outputs


def unfold(op: Any, x: Any, windows: Sequence[Window], fill: Any) -> Any:
    """Gather what windows see: from ``[N, C, …]`` to ``[N, C, outputs, kernel, outputs, kernel, …]``.

    Padding is one element after the last along each axis that needs it, and seen from wherever a window looks beside.
    """
    padded = [int((window.places == PADDING).any()) for window in windows]
    if any(padded):
        x = op.Pad(x, np.array([0] * (len(windows) + 4) + padded, np.int64), fill)
    for number, window in enumerate(windows):
        x = op.Gather(x, window.places.astype(np.int64), axis=2 + 2 * number)
    return x
