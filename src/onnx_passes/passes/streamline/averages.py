"""Integer forms of averages and sums along axes: integers are added up, their number goes into the scale."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.windows import averaged, counts, image_sizes, windows_of
from onnx_passes.graph.shapes import dimension
from onnx_passes.ops.windows import Windows
from onnx_passes.passes.streamline.choices import reduced_axes
from onnx_passes.passes.streamline.form import Form, Workshop
from onnx_passes.passes.streamline.products import pads, varies

_AXES_AS_INPUT = 13


def average_pool(shop: Workshop, node: ir.Node, forms: Sequence[Form | None]) -> Form | None:
    """Sum up windows with a convolution by ones; the number of summands goes into the scale.

    Where windows hold different numbers of elements, sums are multiplied so that one scale fits all.
    """
    x, channels = forms[0], dimension(node.inputs[0], 1)
    kernel = node.attributes.get_ints("kernel_shape")
    if x is None or channels is None or not kernel or varies(x.scale, keep=1) or varies(x.bias, keep=1):
        return None
    result, count = node.outputs[0], int(np.prod(kernel))
    spatial = range(2, x.scale.ndim)
    if not pads(node) and list(kernel) == _sizes(node, spatial):
        return _reduced(shop, node, x, spatial, keep=True)
    ones = shop.constant(np.ones((channels, 1, *kernel)), f"{result.name}_ones")
    own = [ir.AttrInt64("group", channels), ir.AttrInt64s("kernel_shape", kernel)]
    includes, is_ceiled = node.attributes.get_int("count_include_pad", 0), node.attributes.get_int("ceil_mode", 0)
    if not is_ceiled and (not pads(node) or (includes and not x.has_bias)):
        kept = ("strides", "pads", "auto_pad", "dilations")
        own = [node.attributes[name] for name in kept if name in node.attributes] + own
        return Form(shop.node("Conv", [x.integer, ones], result, own, after=node), x.scale / count, x.bias)
    windows, sizes, found = windows_of(node, kernel), image_sizes(node), averaged(node)
    if windows is None or sizes is None or found is None:
        return None
    start, end = windows.pads[: len(sizes)], [_overhang(windows, axis, size) for axis, size in enumerate(sizes)]
    own += [ir.AttrInt64s("strides", windows.strides), ir.AttrInt64s("pads", (*start, *end))]
    own += [ir.AttrInt64s("dilations", windows.dilations)]
    integer = shop.node("Conv", [x.integer, ones], result, own, after=node)
    scaled = shop.multiplied(integer, found.factors[None, None].astype(np.float64), result)
    share = counts(windows, sizes) * found.factors / found.multiple
    return Form(scaled, x.scale / found.multiple, x.bias * (share[None, None] if (share != 1).any() else 1.0))


def _overhang(windows: Windows, axis: int, size: int) -> int:
    """Return how far the last window reaches over the end of an image."""
    last = int(windows.starts(axis, size)[-1]) + windows.extent(axis)
    return max(last - size - windows.padding(axis)[0], 0)


def global_average(shop: Workshop, node: ir.Node, forms: Sequence[Form | None]) -> Form | None:
    """Sum up all that an average is of."""
    x = forms[0]
    return None if x is None else _reduced(shop, node, x, range(2, x.scale.ndim), keep=True)


def reduce_mean(shop: Workshop, node: ir.Node, forms: Sequence[Form | None]) -> Form | None:
    """Sum up what a mean is of."""
    return _reduction(shop, node, forms, mean=True)


def reduce_sum(shop: Workshop, node: ir.Node, forms: Sequence[Form | None]) -> Form | None:
    """Sum up integers."""
    return _reduction(shop, node, forms, mean=False)


def _reduction(shop: Workshop, node: ir.Node, forms: Sequence[Form | None], *, mean: bool) -> Form | None:
    x = forms[0]
    axes = None if x is None else reduced_axes(node, x.scale.ndim)
    if x is None or axes is None:
        return None
    return _reduced(shop, node, x, axes, keep=bool(node.attributes.get_int("keepdims", 1)), mean=mean)


def _reduced(
    shop: Workshop, node: ir.Node, x: Form, axes: Sequence[int], *, keep: bool, mean: bool = True
) -> Form | None:
    """Return the form of a mean, or of a sum."""
    sizes = _sizes(node, axes)
    if sizes is None or any(array.shape[axis] > 1 for array in (x.scale, x.bias) for axis in axes):
        return None
    if shop.opset < _AXES_AS_INPUT:
        return None
    result, count = node.outputs[0], int(np.prod(sizes))
    where = shop.indices(axes, f"{result.name}_axes")
    integer = shop.node("ReduceSum", [x.integer, where], result, [ir.AttrInt64("keepdims", int(keep))], after=node)
    scale, bias = (x.scale / count, x.bias) if mean else (x.scale, x.bias * count)
    if not keep:
        scale, bias = np.squeeze(scale, tuple(axes)), np.squeeze(bias, tuple(axes))
    return Form(integer, scale, bias)


def _sizes(node: ir.Node, axes: Sequence[int]) -> list[int] | None:
    """Return how large the input is along axes, if that is known."""
    sizes = [dimension(node.inputs[0], axis) for axis in axes]
    known = [size for size in sizes if size is not None]
    return known if len(known) == len(sizes) else None
