"""Laws of pooling: lower it to gathers and reductions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.options import option
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.shapes import rank, static_shape
from onnx_passes.passes.lower.image_rows import average_of_image, largest_of_image
from onnx_passes.passes.lower.windows import AxisWindow, unfold, windows_of
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.laws import Law, LawPass, Vocabulary, When
from onnx_passes.rewrite.refusal import Refusal, Rewritten, no


def _windows(x: ir.Value, node: ir.Node) -> list[AxisWindow] | Refusal:
    if x.dtype is None:
        return no("the type of the input is not known", at=x)
    windows = windows_of(x, node, node.attributes.get_ints("kernel_shape", ()))
    if not isinstance(windows, Refusal) and any((window.seen == 0).any() for window in windows):
        return no("a window contains only padding", at=node)
    return windows


def _largest(op: Builder, node: ir.Node, x: ir.Value) -> Rewritten:
    windows = _windows(x, node)
    if isinstance(windows, Refusal):
        return windows
    assert x.dtype is not None
    lowest = -np.inf if x.dtype.is_floating_point() else x.dtype.min
    return op.ReduceMax(unfold(op, x, windows, _typed(op, lowest, x)), _kernel_axes(windows), keepdims=0)


def _average(op: Builder, node: ir.Node, x: ir.Value) -> Rewritten:
    windows = _windows(x, node)
    if isinstance(windows, Refusal):
        return windows
    sums = op.ReduceSum(unfold(op, x, windows, _typed(op, 0, x)), _kernel_axes(windows), keepdims=0)
    with_padding = bool(node.attributes.get_int("count_include_pad", 0))
    counts = reduce(np.multiply.outer, [window.counted if with_padding else window.seen for window in windows])
    return op.Div(sums, _typed(op, counts if (counts != counts.flat[0]).any() else counts.flat[0], x))


def _has_places(x: ir.Value) -> bool:
    """Return whether an image is known to have spatial axes and to be non-empty."""
    shape = static_shape(x)
    return bool(shape) and len(shape) > 2 and 0 not in shape


def _spatial_axes(x: ir.Value) -> list[int]:
    return list(range(2, rank(x) or 0))


def _kernel_axes(windows: Sequence[AxisWindow]) -> list[int]:
    return [3 + 2 * number for number in range(len(windows))]


def _typed(op: Builder, number: Any, x: ir.Value) -> ir.Value:
    assert x.dtype is not None
    return op.initializer(ir.Tensor(np.asarray(number).astype(x.dtype.numpy()), dtype=x.dtype), "constant")


_law = Vocabulary(_average, _has_places, _largest, _spatial_axes, average_of_image, largest_of_image).law
_OPSET_18 = When("opset >= 18", "needs opset 18")
_OF_IMAGES = tuple(
    _law(f"{f}(x) → {pooled}(result, x)", name=f"{f}OfImage")
    for f, pooled in (
        ("MaxPool", "largest_of_image"),
        ("AveragePool", "average_of_image"),
        ("GlobalAveragePool", "average_of_image"),
    )
)


@passes.verify.tolerance
@passes.register("lower")
class LowerPooling(LawPass):
    """Lower pooling to gathers and reductions.

    Rewrites: ``MaxPool(x)`` → ``ReduceMax`` over each window, ``AveragePool(x)`` → ``ReduceSum`` over each window
              divided by its number of elements, ``GlobalMaxPool`` and ``GlobalAveragePool`` → ``ReduceMax`` and
              ``ReduceMean``; with any padding, strides, dilations, ``ceil_mode`` and ``count_include_pad``. With
              ``im2col``, pooling of images → ``MaxPoolNHWC(x)`` and ``ReduceSum(Im2Col(x)) * c`` with channels last,
              between two transpositions.
    Refuses:  opsets below 18; unknown spatial sizes; the second result of ``MaxPool``; windows that contain only
              padding.
    Exactness: rounding for averages.
    """

    lowers = ("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool")
    fast_math = ("nnan", "ninf", "nsz", "reassoc")
    fuzz_hints = hints(dtypes=("float32", "float16", "float64", "int8", "uint8"))

    im2col: bool = option(False, "pool channels last, with operators of QONNX, where the image is known")
    laws = (
        *_OF_IMAGES,
        _law("MaxPool(x) → largest(result, x)", _OPSET_18),
        _law("AveragePool(x) → average(result, x)", _OPSET_18),
        *(
            _law(
                f"Global{f}Pool(x) → {reduction}(x, spatial_axes(x), keepdims=1)",
                _OPSET_18,
                When("has_places(x)", "the input may be empty, or has no spatial axes"),
            )
            for f, reduction in (("Max", "ReduceMax"), ("Average", "ReduceMean"))
        ),
    )

    def chosen(self) -> Sequence[Law]:
        """Return the laws, without those for images unless ``im2col`` is set."""
        return self.laws if self.im2col else [law for law in self.laws if law not in _OF_IMAGES]
