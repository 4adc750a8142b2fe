"""Sliding windows: where they look, and how to gather what they see with standard operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.windows import image_sizes
from onnx_passes.analysis.windows import windows_of as sliding_windows
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.shapes import rank
from onnx_passes.ops.windows import SlidingWindows
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
    if rank(x) != len(kernel) + 2:
        return no("the rank of the input is not known", at=x)
    sizes = image_sizes(node)
    if sizes is None or 0 in sizes:
        return no("the spatial sizes of the input are not known, or zero", at=x)
    sliding = sliding_windows(node, kernel)
    if sliding is None or not sliding.fit(sizes):
        return no("the window does not fit into the input", at=node)
    return [_window(sliding, axis, size) for axis, size in enumerate(sizes)]


def _window(sliding: SlidingWindows, axis: int, size: int) -> Window:
    begin, end = sliding.padding(axis)
    steps = sliding.starts(axis, size)[:, None] + sliding.offsets(axis)
    inside = (steps >= begin) & (steps < begin + size)
    return Window(size, np.where(inside, steps - begin, PADDING), np.sum(steps < begin + size + end, axis=1))


def unfold(op: Builder, x: ir.Value, windows: Sequence[Window], fill: ir.Value) -> ir.Value:
    """Gather what windows see: from ``[N, C, …]`` to ``[N, C, outputs, kernel, outputs, kernel, …]``.

    Padding is one element after the last along each axis that needs it, and seen from wherever a window looks beside.
    """
    padded = [int((window.places == PADDING).any()) for window in windows]
    if any(padded):
        x = op.Pad(x, np.array([0] * (len(windows) + 4) + padded, np.int64), fill)
    for number, window in enumerate(windows):
        x = op.Gather(x, window.places.astype(np.int64), axis=2 + 2 * number)
    return x
