"""Sliding windows: their input positions, and how to gather their elements with standard operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.builder import Builder
from onnx_passes.graph.shapes import rank
from onnx_passes.ops.windows import SlidingWindows, image_sizes
from onnx_passes.ops.windows import windows_of as sliding_windows
from onnx_passes.rewrite.refusal import Refusal, no

PADDING = -1
"""Position of window elements outside the input, and of the padding element in the padded input."""


@dataclass(frozen=True)
class AxisWindow:
    """A window along one axis: ``places[o, k]`` is the input position of its element ``k`` at output ``o``.

    ``counted`` is the number of window elements inside the input or its padding: ``ceil_mode`` may add others.
    """

    size: int
    places: np.ndarray
    counted: np.ndarray

    @property
    def outputs(self) -> int:
        """Return the number of outputs."""
        return self.places.shape[0]

    @property
    def is_whole(self) -> bool:
        """Return whether each window is the single element at its own position."""
        return self.places.shape == (self.size, 1) and bool((self.places[:, 0] == np.arange(self.size)).all())

    @property
    def seen(self) -> np.ndarray:
        """Return the number of input elements in the window at each output."""
        return np.sum(self.places != PADDING, axis=1)


def windows_of(x: ir.Value, node: ir.Node, kernel: Sequence[int]) -> list[AxisWindow] | Refusal:
    """Return the windows of a convolution or pooling along all spatial axes of its input."""
    if rank(x) != len(kernel) + 2:
        return no("the rank of the input is not known", at=x)
    sizes = image_sizes(node)
    if sizes is None or 0 in sizes:
        return no("the spatial sizes of the input are not known, or zero", at=x)
    sliding = sliding_windows(node, kernel)
    if sliding is None or not sliding.fit(sizes):
        return no("the window does not fit into the input", at=node)
    return [_window(sliding, axis, size) for axis, size in enumerate(sizes)]


def _window(sliding: SlidingWindows, axis: int, size: int) -> AxisWindow:
    begin, end = sliding.padding(axis)
    steps = sliding.starts(axis, size)[:, None] + sliding.offsets(axis)
    inside = (steps >= begin) & (steps < begin + size)
    return AxisWindow(size, np.where(inside, steps - begin, PADDING), np.sum(steps < begin + size + end, axis=1))


def unfold(op: Builder, x: ir.Value, windows: Sequence[AxisWindow], fill: ir.Value) -> ir.Value:
    """Gather the elements of windows: from ``[N, C, …]`` to ``[N, C, outputs, kernel, outputs, kernel, …]``.

    Padding is one element appended along each axis that needs it, shared by all window elements outside the input.
    """
    padded = [int((window.places == PADDING).any()) for window in windows]
    if any(padded):
        x = op.Pad(x, np.array([0] * (len(windows) + 4) + padded, np.int64), fill)
    for number, window in enumerate(windows):
        x = op.Gather(x, window.places.astype(np.int64), axis=2 + 2 * number)
    return x
