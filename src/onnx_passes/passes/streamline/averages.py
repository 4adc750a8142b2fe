"""Scaled-integer forms of averages and sums along axes: integers are summed, their number divides the scale."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.streamlined import Reason
from onnx_passes.graph.shapes import dimension
from onnx_passes.numbers.reals import Reals
from onnx_passes.ops.windows import SlidingWindows, averaged, counts, image_sizes, windows_of
from onnx_passes.passes.streamline.choices import reduced_axes, squeezed
from onnx_passes.passes.streamline.form import PARAMETER, VARIES, Form, FormBuilder
from onnx_passes.passes.streamline.products import pads, varies

_AXES_AS_INPUT = 13
_SIZES = Reason("the number of averaged elements is not known", "give inputs sizes that are numbers")


def average_pool(make: FormBuilder, node: ir.Node, forms: Sequence[Form | None]) -> Form | Reason:
    """Sum windows by a convolution with ones; the number of summands divides the scale.

    If windows have different numbers of elements, their sums are multiplied so that one scale fits all.
    """
    x, channels = forms[0], dimension(node.inputs[0], 1)
    kernel = node.attributes.get_ints("kernel_shape")
    if x is None:
        return make.lacking(node.inputs[0])
    if channels is None or not kernel:
        return _SIZES
    if varies(x.scale, keep=1) or varies(x.bias, keep=1):
        return VARIES
    result, count = node.outputs[0], int(np.prod(kernel))
    spatial = range(2, x.scale.ndim)
    if not pads(node) and list(kernel) == _sizes(node, spatial):
        return _reduced(make, node, x, spatial, keep=True)
    ones = make.constant(np.ones((channels, 1, *kernel)), f"{result.name}_ones")
    own = [ir.AttrInt64("group", channels), ir.AttrInt64s("kernel_shape", kernel)]
    includes, is_ceiled = node.attributes.get_int("count_include_pad", 0), node.attributes.get_int("ceil_mode", 0)
    if not is_ceiled and (not pads(node) or (includes and not x.has_bias)):
        kept = ("strides", "pads", "auto_pad", "dilations")
        own = [node.attributes[name] for name in kept if name in node.attributes] + own
        return Form(make.node("Conv", [x.integer, ones], result, own), x.scale / Reals.of(count), x.bias)
    windows, sizes, found = windows_of(node, kernel), image_sizes(node), averaged(node)
    if windows is None or sizes is None or found is None:
        return _SIZES
    start, end = windows.pads[: len(sizes)], [_overhang(windows, axis, size) for axis, size in enumerate(sizes)]
    own += [ir.AttrInt64s("strides", windows.strides), ir.AttrInt64s("pads", (*start, *end))]
    own += [ir.AttrInt64s("dilations", windows.dilations)]
    integer = make.node("Conv", [x.integer, ones], result, own)
    scaled = make.multiplied(integer, found.factors[None, None].astype(np.float64), result)
    held, multiple = counts(windows, sizes) * found.factors, Reals.of(found.multiple)
    shares = Reals.of(held[None, None]) / multiple
    return Form(scaled, x.scale / multiple, x.bias * shares if (held != found.multiple).any() else x.bias)


def _overhang(windows: SlidingWindows, axis: int, size: int) -> int:
    """Return the overlap of the last window with the padding at the end."""
    last = int(windows.starts(axis, size)[-1]) + windows.extent(axis)
    return max(last - size - windows.padding(axis)[0], 0)


def global_average(make: FormBuilder, node: ir.Node, forms: Sequence[Form | None]) -> Form | Reason:
    """Sum all elements of an average."""
    x = forms[0]
    return make.lacking(node.inputs[0]) if x is None else _reduced(make, node, x, range(2, x.scale.ndim), keep=True)


def reduce_mean(make: FormBuilder, node: ir.Node, forms: Sequence[Form | None]) -> Form | Reason:
    """Sum all elements of a mean."""
    return _reduction(make, node, forms, mean=True)


def reduce_sum(make: FormBuilder, node: ir.Node, forms: Sequence[Form | None]) -> Form | Reason:
    """Sum integers."""
    return _reduction(make, node, forms, mean=False)


def _reduction(make: FormBuilder, node: ir.Node, forms: Sequence[Form | None], *, mean: bool) -> Form | Reason:
    x = forms[0]
    if x is None:
        return make.lacking(node.inputs[0])
    axes = reduced_axes(node, x.scale.ndim)
    if axes is None:
        return PARAMETER
    return _reduced(make, node, x, axes, keep=bool(node.attributes.get_int("keepdims", 1)), mean=mean)


def _reduced(
    make: FormBuilder, node: ir.Node, x: Form, axes: Sequence[int], *, keep: bool, mean: bool = True
) -> Form | Reason:
    """Return the form of a mean or sum."""
    sizes = _sizes(node, axes)
    if sizes is None:
        return _SIZES
    if any(array.shape[axis] > 1 for array in (x.scale, x.bias) for axis in axes):
        return VARIES
    if make.op.opset < _AXES_AS_INPUT:
        return Reason("sums of its opset take no axes as input", f"convert the model to opset {_AXES_AS_INPUT}")
    result, count = node.outputs[0], int(np.prod(sizes))
    where = make.op.initializer(np.array(axes, np.int64), f"{result.name}_axes")
    integer = make.node("ReduceSum", [x.integer, where], result, [ir.AttrInt64("keepdims", int(keep))])
    scale, bias = (x.scale / Reals.of(count), x.bias) if mean else (x.scale, x.bias * Reals.of(count))
    if not keep:
        scale, bias = squeezed(scale, axes), squeezed(bias, axes)
    return Form(integer, scale, bias)


def _sizes(node: ir.Node, axes: Sequence[int]) -> list[int] | None:
    """Return the sizes of the input along axes; None if one is unknown."""
    sizes = [dimension(node.inputs[0], axis) for axis in axes]
    known = [size for size in sizes if size is not None]
    return known if len(known) == len(sizes) else None
