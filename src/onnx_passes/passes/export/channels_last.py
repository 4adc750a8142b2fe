"""Convolutions as products of matrices on images whose channels come last, as FINN has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.ranges.range import Range
from onnx_passes.graph.constants import constant
from onnx_passes.graph.operators import Interface
from onnx_passes.graph.shapes import rank, static_shape
from onnx_passes.graph.tensor_types import set_sparsity
from onnx_passes.graph.wording import name_of
from onnx_passes.passes.export.containers import held_integers, is_exact_product
from onnx_passes.passes.export.twins import Twins
from onnx_passes.passes.qonnx.dialect import GENERAL
from onnx_passes.rewrite.editor import Editor

_TO_LAST, _TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
_IMAGE = 4


class ChannelsLast(Twins):
    """Gives images a twin whose channels come last, where a convolution of integers or somebody behind it uses it."""

    def __init__(self, editor: Editor, ranges: Mapping[ir.Value, Range]) -> None:
        super().__init__(editor)
        convolutions = [node for node in editor.graph if _is_conv(node)]
        self._reasons = {node: _why_not(node, ranges) for node in convolutions}

    def form(self, node: ir.Node) -> ir.Value | str:
        """Multiply matrices in the place of a convolution; let others take images as they come."""
        if _is_conv(node):
            return self._reasons[node] or self._conv(node)
        rule = CHANNELS_LAST.get(node)
        if rule is None or len(node.outputs) != 1 or rank(node.outputs[0]) is None:
            return "it has no form for images whose channels come last"
        if not any(map(self.has_twin, node.inputs)):
            return "no image comes in whose channels are last"
        return rule(self, node)

    def note_refusal(self, node: ir.Node, reason: str) -> None:
        """Name a convolution that stays one."""
        if _is_conv(node):
            self.editor.context.note(f"{name_of(node)} stays a convolution: {reason}")

    def restored(self, twin: ir.Value, old: ir.Value) -> ir.Value:
        """Return an image with its channels where they were; what is none is as it was."""
        _typed(twin, old, _TO_LAST)
        if rank(old) != _IMAGE:
            return twin
        twin.name = f"{old.name}_nhwc"
        return _typed(self.op.Transpose(twin, perm=list(_TO_FIRST)), old, range(_IMAGE))

    def last(self, value: ir.Value) -> ir.Value:
        """Return an image with its channels last."""
        return self.twin(value) or self.once(value, lambda: self._turned(value))

    def _turned(self, value: ir.Value) -> ir.Value:
        turned = self.op.Transpose(value, perm=list(_TO_LAST), _outputs=[f"{value.name}_nhwc"])
        return _typed(turned, value, _TO_LAST)

    def _conv(self, node: ir.Node) -> ir.Value:
        x, w = node.inputs[0], node.inputs[1]
        weights, bias = constant(w), constant(node.inputs[2]) if len(node.inputs) > 2 else None
        assert x is not None
        assert w is not None
        assert weights is not None
        groups = node.attributes.get_int("group", 1)
        rows = self._rows(node, x, list(weights.shape[2:]), depthwise=groups > 1)
        matrix = self.op.initializer(_matrix(weights, groups), f"{w.name}_matrix")
        if groups > 1:
            set_sparsity(matrix, {"dw": {"kernel_shape": list(weights.shape[2:])}})
        found = self.op.MatMul(rows, matrix)
        if bias is None:
            return found
        _typed(found, node.outputs[0], _TO_LAST)
        return self.op.Add(found, bias.reshape(1, 1, 1, -1))

    def _rows(self, node: ir.Node, x: ir.Value, kernel: list[int], *, depthwise: bool) -> ir.Value:
        """Return what each window sees as one row: the image itself where that is one place."""
        image, shape, result = self.last(x), static_shape(x), static_shape(node.outputs[0])
        assert shape is not None
        assert result is not None
        strides = list(node.attributes.get_ints("strides") or (1, 1))
        pads = list(node.attributes.get_ints("pads") or (0, 0, 0, 0))
        if kernel == [1, 1] and strides == [1, 1] and not any(pads):
            return image
        batch, channels, height, width = shape
        rows = self.op.Im2Col(
            image,
            _domain=GENERAL,
            stride=strides,
            kernel_size=kernel,
            pad_amount=pads,
            dilations=list(node.attributes.get_ints("dilations") or (1, 1)),
            input_shape=f"({batch},{height},{width},{channels})",
            depthwise=int(depthwise),
            pad_value=0,
        )
        rows.name = f"{x.name}_rows"
        rows.type = ir.TensorType(x.dtype or ir.DataType.FLOAT)
        rows.shape = ir.Shape([batch, *result[2:], channels * kernel[0] * kernel[1]])
        return rows

    def parameter(self, value: ir.Value, array: np.ndarray) -> ir.Value | None:
        """Return a constant that is combined with an image, with its channels last."""
        if array.size == 1 or array.ndim > _IMAGE:
            return value if array.size == 1 else None
        wide = array.reshape((1,) * (_IMAGE - array.ndim) + array.shape)
        return self.op.initializer(np.ascontiguousarray(wide.transpose(_TO_LAST)), f"{value.name}_nhwc")


def _is_conv(node: ir.Node) -> bool:
    return (node.domain, node.op_type) == ("", "Conv")


def _why_not(node: ir.Node, ranges: Mapping[ir.Value, Range]) -> str:
    """Say why a convolution cannot be lowered, if so."""
    x, shape, weights = node.inputs[0], static_shape(node.inputs[0]), constant(node.inputs[1])
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if x is None or shape is None or len(shape) != _IMAGE or static_shape(node.outputs[0]) is None:
        return "it is not of an image of known size"
    if weights is None or (bias is not None and constant(bias) is None):
        return "its weights are not constant"
    if node.attributes.get_string("auto_pad", "NOTSET") != "NOTSET":
        return "its padding is left open"
    if not is_exact_product(node, lambda value: held_integers(value, ranges)):
        return "it is not of integers, so that a product of matrices might round otherwise"
    if node.attributes.get_int("group", 1) not in (1, shape[1]):
        return "it has groups of several channels"
    pads = node.attributes.get_ints("pads") or (0, 0, 0, 0)
    sizes, kernel = shape[2:], weights.shape[2:]
    if any(sizes[i] == 1 and (kernel[i] > 1 or pads[i] or pads[i + 2]) for i in (0, 1)):
        return "Im2Col of QONNX has no windows along an axis of size one"
    return ""


def _typed(made: ir.Value, like: ir.Value, perm: Sequence[int]) -> ir.Value:
    if like.dtype is not None:
        made.type = ir.TensorType(like.dtype)
    if made.shape is None and like.shape is not None:
        shape = like.shape if len(like.shape) != _IMAGE else [like.shape[axis] for axis in perm]
        made.shape = ir.Shape(list(shape))
    return made


ChannelsLastRule = Callable[[ChannelsLast, ir.Node], "ir.Value | str"]
"""Builds the result of a node on images whose channels come last, or says why it cannot."""
CHANNELS_LAST: Interface[ChannelsLastRule] = Interface("channels_last", "how it computes on images with channels last")
_NO_IMAGE = "not all that it takes are images"


def _matrix(weights: np.ndarray, groups: int) -> np.ndarray:
    """Return filters as columns, ordered as Im2Col orders rows: place by place, each with all channels."""
    features, depth, *kernel = weights.shape
    if groups == 1:
        return np.ascontiguousarray(weights.transpose(2, 3, 1, 0).reshape(-1, features))
    dense = np.zeros((*kernel, groups * depth, features), weights.dtype)
    feature: np.ndarray = np.arange(int(features))
    for inner in range(depth):
        dense[:, :, feature * groups // features * depth + inner, feature] = weights[:, inner].transpose(1, 2, 0)
    return dense.reshape(-1, features)


def _multi_threshold(images: ChannelsLast, node: ir.Node) -> ir.Value | str:
    x, thresholds = node.inputs
    if x is None or rank(x) != _IMAGE or node.attributes.get_string("data_layout", "NCHW") != "NCHW":
        return "it is not for the channels of an image"
    return images.op.like(node, [images.last(x), thresholds], data_layout="NHWC")


def _max_pool(images: ChannelsLast, node: ir.Node) -> ir.Value | str:
    x, attributes = node.inputs[0], node.attributes
    kernel, pads = attributes.get_ints("kernel_shape"), list(attributes.get_ints("pads") or (0, 0, 0, 0))
    plain = all(step == 1 for step in attributes.get_ints("dilations") or ()) and not attributes.get_int("ceil_mode", 0)
    if x is None or kernel is None or not plain or attributes.get_string("auto_pad", "NOTSET") != "NOTSET":
        return "MaxPoolNHWC knows neither dilations nor windows that end outside"
    if pads[:2] != pads[2:]:
        return "MaxPoolNHWC pads alike on both sides"
    strides = list(attributes.get_ints("strides") or (1, 1))
    return images.op.MaxPoolNHWC(
        images.last(x), _domain=GENERAL, kernel_shape=list(kernel), strides=strides, pads=pads, ceil_mode=0
    )


def _elementwise(images: ChannelsLast, node: ir.Node) -> ir.Value | str:
    found: list[ir.Value | None] = []
    for value in node.inputs:
        held = constant(value)
        if value is None or (held is None and rank(value) != _IMAGE):
            return _NO_IMAGE
        found.append(images.last(value) if held is None else images.parameter(value, held))
    return _NO_IMAGE if None in found else images.op.like(node, found)


def _reduce_sum(images: ChannelsLast, node: ir.Node) -> ir.Value | str:
    x, axes = node.inputs[0], constant(node.inputs[1]) if len(node.inputs) > 1 else None
    if x is None or axes is None or not node.attributes.get_int("keepdims", 1) or not axes.size:
        return "its axes are computed, or gone"
    moved = np.array(sorted(_TO_LAST.index(int(axis) % _IMAGE) for axis in axes.reshape(-1)), np.int64)
    return images.op.like(node, [images.last(x), moved])


def _concat(images: ChannelsLast, node: ir.Node) -> ir.Value | str:
    values = [value for value in node.inputs if value is not None and rank(value) == _IMAGE and constant(value) is None]
    if len(values) != len(node.inputs):
        return _NO_IMAGE
    axis = _TO_LAST.index(node.attributes.get_int("axis", 1) % _IMAGE)
    return images.op.Concat(*map(images.last, values), axis=axis)


def _resize(images: ChannelsLast, node: ir.Node) -> ir.Value | str:
    """Resize along other axes; regions of interest would have to be turned, too."""
    x, region, *amounts = node.inputs
    held = [constant(value) for value in amounts]
    if x is None or region is not None or "axes" in node.attributes or not any(a is not None and a.size for a in held):
        return "what it resizes is computed, or given in another way than for all axes"
    turned = [None if array is None or not array.size else array[list(_TO_LAST)] for array in held]
    return images.op.like(node, [images.last(x), None, *turned])


def _flatten(images: ChannelsLast, node: ir.Node) -> ir.Value | str:
    """Flatten images of one place, where it makes no difference in which order axes lie."""
    x = node.inputs[0]
    shape, result = static_shape(x), static_shape(node.outputs[0])
    if x is None or shape is None or result is None or shape[2:] != (1, 1) or len(result) == _IMAGE:
        return "the image has more than one place, whose order would change"
    return images.op.Reshape(images.last(x), np.array(result, np.int64))


CHANNELS_LAST.of("MultiThreshold", domains=(GENERAL,))(_multi_threshold)
CHANNELS_LAST.attach(
    {
        **dict.fromkeys(("Add", "Sub", "Mul", "Relu"), _elementwise),
        **dict.fromkeys(("Flatten", "Reshape"), _flatten),
        "Concat": _concat,
        "MaxPool": _max_pool,
        "ReduceSum": _reduce_sum,
        "Resize": _resize,
    }
)
