"""Integer forms of what sums up products: matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.einsum import contraction_of
from onnx_passes.analysis.ranges.einsum import laid_out
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import dimension, rank
from onnx_passes.passes.streamline.form import Form, Workshop, spread

_MATRIX = 2
_AXES_AS_INPUT = 13


def matmul(shop: Workshop, node: ir.Node, forms: Sequence[Form | None]) -> Form | None:
    """Multiply integers; scales must be the same along the sum."""
    a, b = forms[0], forms[1]
    if a is None or b is None or min(a.scale.ndim, b.scale.ndim) < _MATRIX:
        return None
    return _product(shop, node, a, b)


def gemm(shop: Workshop, node: ir.Node, forms: Sequence[Form | None]) -> Form | None:
    """Multiply integers; what is added goes into the bias."""
    a, b = forms[0], forms[1]
    if a is None or b is None:
        return None
    if node.attributes.get_int("transA", 0):
        a = _transposed(shop, node, a)
    if node.attributes.get_int("transB", 0):
        b = _transposed(shop, node, b)
    product = _product(shop, node, a, b)
    if product is None:
        return None
    product = product.times(node.attributes.get_float("alpha", 1.0))
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        added = shop.number(node.inputs[2])
        if added is None:
            return None
        product = product.plus(spread(added, _MATRIX) * node.attributes.get_float("beta", 1.0))
    return product


def _transposed(shop: Workshop, node: ir.Node, form: Form) -> Form:
    held = constant(form.integer)
    if held is not None:
        integer = shop.constant(held.T, f"{form.integer.name}_transposed")
    else:
        integer = shop.node("Transpose", [form.integer], node.outputs[0], [ir.AttrInt64s("perm", [1, 0])])
        integer.shape = None
    return Form(integer, form.scale.T, form.bias.T)


def _product(shop: Workshop, node: ir.Node, a: Form, b: Form) -> Form | None:
    if a.scale.shape[-1] > 1 or b.scale.shape[-2] > 1:
        return None
    result = node.outputs[0]
    length = rank(result)
    if length is None:
        return None
    bias = np.zeros((1,) * length)
    first, second = constant(a.integer), constant(b.integer)
    if a.has_bias and second is not None and not b.has_bias:
        rows = np.broadcast_to(a.bias, (*a.bias.shape[:-1], second.shape[-2]))
        bias = spread(np.matmul(rows, second * b.scale), length)
    elif b.has_bias and first is not None and not a.has_bias:
        columns = np.broadcast_to(b.bias, (*b.bias.shape[:-2], first.shape[-1], b.bias.shape[-1]))
        bias = spread(np.matmul(first * a.scale, columns), length)
    else:
        centred_a, centred_b = shop.centred(a, result), shop.centred(b, result)
        if centred_a is None or centred_b is None:
            return None
        a, b = centred_a, centred_b
    integer = shop.node("MatMul", [a.integer, b.integer], result, after=node)
    return Form(integer, spread(a.scale * b.scale, length), bias)


def einsum(shop: Workshop, node: ir.Node, forms: Sequence[Form | None]) -> Form | None:
    """Multiply integers along labels; scales must be the same along the sum."""
    result, found = node.outputs[0], contraction_of(node)
    centred = [None if form is None else shop.centred(form, result) for form in forms]
    a, b = centred if len(centred) == 2 else (None, None)
    if found is None or a is None or b is None:
        return None
    order = (*found.result, *found.summed)
    scales = [laid_out(form.scale, labels, order) for form, labels in zip((a, b), found.operands, strict=True)]
    scale, summed = scales[0] * scales[1], tuple(range(len(found.result), len(order)))
    if any(scale.shape[axis] > 1 for axis in summed):
        return None
    attributes = tuple(node.attributes.values())
    integer = shop.node("Einsum", [a.integer, b.integer], result, attributes, after=node)
    return Form(integer, np.squeeze(scale, summed), np.zeros((1,) * len(found.result)))


def conv(shop: Workshop, node: ir.Node, forms: Sequence[Form | None]) -> Form | None:
    """Convolve integers with integer weights, for channels together, in groups or one by one."""
    x, w = forms[0], forms[1]
    weights = None if w is None else constant(w.integer)
    if x is None or w is None or weights is None or w.has_bias or _varies(w.scale, keep=0):
        return None
    channels, group = weights.shape[0], node.attributes.get_int("group", 1)
    scale = _per_output_channel(x.scale, channels, alone=weights.shape[1] == 1 and group > 1)
    if scale is None or _varies(x.bias, keep=1):
        return None
    result = node.outputs[0]
    bias = np.zeros((1,) * weights.ndim)
    if x.has_bias:
        if _pads(node):
            centred = shop.centred(x, result)
            if centred is None:
                return None
            x = centred
        else:
            inside = weights * w.scale
            each = np.broadcast_to(x.bias.reshape(-1), (weights.shape[1] * group,)).reshape(group, weights.shape[1])
            seen = np.repeat(each, channels // group, axis=0)
            total = (inside.reshape(channels, weights.shape[1], -1).sum(axis=2) * seen).sum(axis=1)
            bias = _along_channels(total, weights.ndim)
    integer = shop.node("Conv", [x.integer, w.integer], result, tuple(node.attributes.values()), after=node)
    form = Form(integer, scale * _along_channels(w.scale.reshape(-1), weights.ndim), bias)
    return _with_bias(shop, node, form, weights.ndim)


def conv_transpose(shop: Workshop, node: ir.Node, forms: Sequence[Form | None]) -> Form | None:
    """Convolve integers with integer weights; what is seen less often at the border must be zero there."""
    x, w = forms[0], forms[1]
    weights = None if w is None else constant(w.integer)
    if x is None or w is None or weights is None or w.has_bias or x.scale.size > 1:
        return None
    group = node.attributes.get_int("group", 1)
    if _varies(w.scale, keep=1) or (group > 1 and w.scale.size > 1):
        return None
    result = node.outputs[0]
    x = shop.centred(x, result)
    if x is None:
        return None
    integer = shop.node("ConvTranspose", [x.integer, w.integer], result, tuple(node.attributes.values()), after=node)
    scale = x.scale.reshape(()) * _along_channels(w.scale.reshape(-1), weights.ndim)
    return _with_bias(shop, node, Form(integer, scale, np.zeros((1,) * weights.ndim)), weights.ndim)


def _with_bias(shop: Workshop, node: ir.Node, form: Form, length: int) -> Form | None:
    if len(node.inputs) < 3 or node.inputs[2] is None:
        return form
    added = shop.number(node.inputs[2])
    return None if added is None else form.plus(_along_channels(added.reshape(-1), length))


def _per_output_channel(scale: np.ndarray, channels: int, *, alone: bool) -> np.ndarray | None:
    """Return the scale of the input as seen from the output: one for all, or one for each channel that is alone."""
    if scale.size == 1:
        return scale
    if not alone or _varies(scale, keep=1):
        return None
    each = scale.reshape(-1)
    return _along_channels(np.repeat(each, channels // each.size), scale.ndim)


def _along_channels(numbers: np.ndarray, length: int) -> np.ndarray:
    return numbers.reshape((1, -1) + (1,) * (length - 2))


def _varies(array: np.ndarray, *, keep: int) -> bool:
    return any(size > 1 for axis, size in enumerate(array.shape) if axis != keep)


def _pads(node: ir.Node) -> bool:
    mode = node.attributes.get_string("auto_pad", "NOTSET")
    return mode.startswith("SAME") or any(node.attributes.get_ints("pads") or ())


def window_sum(shop: Workshop, node: ir.Node, forms: Sequence[Form | None]) -> Form | None:
    """Sum up the windows of an average with a convolution by ones; the number of summands goes into the scale."""
    x, channels = forms[0], dimension(node.inputs[0], 1)
    kernel = node.attributes.get_ints("kernel_shape")
    if x is None or channels is None or not kernel or node.attributes.get_int("ceil_mode", 0):
        return None
    padded = _pads(node)
    if padded and (x.has_bias or not node.attributes.get_int("count_include_pad", 0)):
        return None
    if _varies(x.scale, keep=1) or _varies(x.bias, keep=1):
        return None
    result, count = node.outputs[0], int(np.prod(kernel))
    spatial = range(2, x.scale.ndim)
    if not padded and list(kernel) == _sizes(node, spatial):
        return _reduced(shop, node, x, spatial, keep=True)
    ones = shop.constant(np.ones((channels, 1, *kernel)), f"{result.name}_ones")
    kept = ("strides", "pads", "auto_pad", "dilations")
    attributes = [node.attributes[name] for name in kept if name in node.attributes]
    attributes += [ir.AttrInt64("group", channels), ir.AttrInt64s("kernel_shape", kernel)]
    return Form(shop.node("Conv", [x.integer, ones], result, attributes, after=node), x.scale / count, x.bias)


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
    if x is None:
        return None
    given: Sequence[int] | None = node.attributes.get_ints("axes")
    if given is None and len(node.inputs) > 1 and node.inputs[1] is not None:
        array = constant(node.inputs[1])
        if array is None:
            return None
        given = [int(axis) for axis in array.reshape(-1)]
    length = x.scale.ndim
    if not given:
        if node.attributes.get_int("noop_with_empty_axes", 0):
            return None
        given = range(length)
    axes = sorted(axis % length for axis in given)
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
