"""Sizes of what Conv returns, axis by axis: arithmetic with dynamic dimensions is slow, and most axes are alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from weakref import WeakKeyDictionary

import onnx_ir as ir
from onnx_shape_inference import OpShapeInferenceRegistry, ShapeInferenceContext

Dim = int | ir.SymbolicDim
Inference = Callable[[ShapeInferenceContext, ir.Node], None]


class _Window(NamedTuple):
    """One axis of a convolution: its size, and all that decides about that of the result."""

    size: Dim
    kernel: int
    stride: int
    padding: int

    def result(self) -> Dim:
        """Return how many windows there are."""
        if self.stride == 1 and self.padding == self.kernel - 1:
            return self.size
        return (self.size + self.padding - self.kernel) // self.stride + 1


class _Windows(NamedTuple):
    """The axes before those of the image, as the result has them, and the windows on the others."""

    leading: tuple[Dim, Dim]
    axes: list[_Window]


def remember_sizes(registry: OpShapeInferenceRegistry) -> None:
    """Let the inference of Conv compute every axis once, within one run."""
    for version in registry.version_boundaries("", "Conv"):
        infer = registry.get("", "Conv", version=version)
        if infer is not None:
            registry.register("", "Conv", since_version=version)(_by_axes(infer))


def _by_axes(infer: Inference) -> Inference:
    runs: WeakKeyDictionary[ShapeInferenceContext, dict[_Window, Dim]] = WeakKeyDictionary()

    def by_axes(ctx: ShapeInferenceContext, node: ir.Node) -> None:
        x, w = (*node.inputs, None, None)[:2]
        windows = None if x is None or w is None else _windows(node, x.shape, w.shape)
        if windows is None or x is None:
            infer(ctx, node)
            return
        known = runs.setdefault(ctx, {})
        for window in windows.axes:
            if window not in known:
                known[window] = window.result()
        dims = [*windows.leading, *(known[window] for window in windows.axes)]
        ctx.set_shape_and_dtype(node.outputs[0], ir.Shape(dims), x.dtype)

    return by_axes


def _windows(node: ir.Node, x: ir.Shape | None, w: ir.Shape | None) -> _Windows | None:
    """Describe a node that is as usual; what is wrong or seldom is left to others."""
    if x is None or w is None or x.is_static() or len(x) != len(w) or len(x) < 3 or len(node.outputs) != 1:
        return None
    count = len(x) - 2
    kernel = [size for size in w.dims[2:] if isinstance(size, int)]
    lists = [_integers(node, name, default) for name, default in _defaults(kernel, count)]
    auto_pad = node.attributes.get("auto_pad")
    if any(found is None for found in lists) or not (auto_pad is None or auto_pad.value == "NOTSET"):
        return None
    sizes, strides, dilations, pads = (found or [] for found in lists)
    if [*map(len, (sizes, strides, dilations, pads))] != [count, count, count, 2 * count]:
        return None
    if sizes != kernel or min(*strides, *dilations) < 1 or any(x.is_unknown_dim(axis) for axis in range(len(x))):
        return None
    axes = [
        _Window(x[axis + 2], dilations[axis] * (sizes[axis] - 1) + 1, strides[axis], pads[axis] + pads[axis + count])
        for axis in range(count)
    ]
    return _Windows((x[0], w[0]), axes)


def _defaults(kernel: list[int], count: int) -> tuple[tuple[str, list[int]], ...]:
    ones = [1] * count
    return ("kernel_shape", kernel), ("strides", ones), ("dilations", ones), ("pads", [0] * 2 * count)


def _integers(node: ir.Node, name: str, default: list[int]) -> list[int] | None:
    attribute = node.attributes.get(name)
    if attribute is None:
        return default
    return None if attribute.is_ref() else list(attribute.as_ints())
