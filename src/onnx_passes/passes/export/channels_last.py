"""Convolutions as products of matrices on images whose channels come last, as FINN has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.core.base import Context
from onnx_passes.graph.constants import constant
from onnx_passes.graph.edits import remove_if_dead, replace_value
from onnx_passes.graph.operators import Interface
from onnx_passes.graph.shapes import rank, static_shape
from onnx_passes.graph.tensor_types import set_sparsity
from onnx_passes.graph.wording import name_of
from onnx_passes.passes.export.bench import Bench, copy_attributes
from onnx_passes.passes.qonnx.dialect import GENERAL

_TO_LAST, _TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
_IMAGE = 4


class ChannelsLast(Bench):
    """Walks over a model and gives images a twin whose channels come last, where somebody computes on it."""

    def __init__(self, model: ir.Model, is_exact: Callable[[ir.Node], bool], allows_zero: Callable[[ir.Value], bool]):
        super().__init__(model)
        self._is_exact = is_exact
        self._allows_zero = allows_zero
        self._twins: dict[ir.Value, ir.Value] = {}
        self._turned: dict[ir.Value, ir.Value] = {}

    def run(self, context: Context) -> bool:
        """Lower all convolutions of integers; returns whether there were any."""
        replaced: list[ir.Node] = []
        for node in tuple(self.graph):
            found = self._convert(node, context)
            if found is not None:
                self._replace(node, found)
                replaced.append(node)
            else:
                for index, value in enumerate(node.inputs):
                    if value in self._twins:
                        node.replace_input_with(index, self._first(value))
                self.place(node)
        for value in dict.fromkeys(self.graph.outputs):
            if value in self._twins:
                turned = self._first(value)
                self.place(None)
                replace_value(value, turned, self.names)
        remove_if_dead(replaced[::-1])
        return bool(replaced)

    def _replace(self, node: ir.Node, found: ir.Value) -> None:
        result = node.outputs[0]
        self._typed(found, result, _TO_LAST)
        if rank(result) == _IMAGE:
            found.name = f"{result.name}_nhwc"
            self._twins[result] = found
            self.place(node)
        else:
            self.place(node)
            replace_value(result, found, self.names)

    def _convert(self, node: ir.Node, context: Context) -> ir.Value | None:
        if node.op_type == "Conv" and not node.domain:
            found = self._conv(node)
            if isinstance(found, str):
                context.note(f"{name_of(node)} stays a convolution: {found}")
                return None
            return found
        rule = CHANNELS_LAST.get(node)
        wanted = rule is not None and any(value in self._twins for value in node.inputs) and len(node.outputs) == 1
        return rule(self, node) if rule is not None and wanted else None

    def last(self, value: ir.Value) -> ir.Value:
        """Return an image with its channels last."""
        if value in self._twins:
            return self._twins[value]
        if value not in self._turned:
            turned = self.op.Transpose(value, perm=list(_TO_LAST))
            turned.name = f"{value.name}_nhwc"
            self._turned[value] = self._typed(turned, value, _TO_LAST)
        return self._turned[value]

    def _first(self, value: ir.Value) -> ir.Value:
        if value not in self._turned:
            turned = self.op.Transpose(self._twins[value], perm=list(_TO_FIRST))
            turned.name = f"{value.name}_nchw"
            self._turned[value] = self._typed(turned, value, (0, 1, 2, 3))
        return self._turned[value]

    @staticmethod
    def _typed(made: ir.Value, like: ir.Value, perm: Sequence[int]) -> ir.Value:
        if like.dtype is not None:
            made.type = ir.TensorType(like.dtype)
        if made.shape is None and like.shape is not None:
            shape = like.shape if len(like.shape) != _IMAGE else [like.shape[axis] for axis in perm]
            made.shape = ir.Shape(list(shape))
        return made

    def _conv(self, node: ir.Node) -> ir.Value | str:
        refusal = self._why_not(node)
        if refusal:
            return refusal
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
        self._typed(found, node.outputs[0], _TO_LAST)
        return self.op.Add(found, bias.reshape(1, 1, 1, -1))

    def _why_not(self, node: ir.Node) -> str:
        """Say why a convolution cannot be lowered, if so."""
        x, shape, weights = node.inputs[0], static_shape(node.inputs[0]), constant(node.inputs[1])
        bias = node.inputs[2] if len(node.inputs) > 2 else None
        if x is None or shape is None or len(shape) != _IMAGE or static_shape(node.outputs[0]) is None:
            return "it is not of an image of known size"
        if weights is None or (bias is not None and constant(bias) is None):
            return "its weights are not constant"
        if node.attributes.get_string("auto_pad", "NOTSET") != "NOTSET":
            return "its padding is left open"
        if not self._is_exact(node):
            return "it is not of integers, so that a product of matrices might round otherwise"
        if node.attributes.get_int("group", 1) not in (1, shape[1]):
            return "it has groups of several channels"
        pads = node.attributes.get_ints("pads") or (0, 0, 0, 0)
        if any(pads) and not self._allows_zero(x):
            return "its padding is zero, which BIPOLAR has not"
        sizes, kernel = shape[2:], weights.shape[2:]
        if any(sizes[i] == 1 and (kernel[i] > 1 or pads[i] or pads[i + 2]) for i in (0, 1)):
            return "Im2Col of QONNX has no windows along an axis of size one"
        return ""

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


ChannelsLastRule = Callable[[ChannelsLast, ir.Node], ir.Value | None]
CHANNELS_LAST: Interface[ChannelsLastRule] = Interface("channels_last", "how it computes on images with channels last")


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


def _multi_threshold(bench: ChannelsLast, node: ir.Node) -> ir.Value | None:
    x, thresholds = node.inputs
    if x is None or rank(x) != _IMAGE or node.attributes.get_string("data_layout", "NCHW") != "NCHW":
        return None
    attributes = copy_attributes(node, ["data_layout"])
    return bench.op.MultiThreshold(bench.last(x), thresholds, _domain=GENERAL, data_layout="NHWC", **attributes)


def _max_pool(bench: ChannelsLast, node: ir.Node) -> ir.Value | None:
    x, attributes = node.inputs[0], node.attributes
    kernel, pads = attributes.get_ints("kernel_shape"), list(attributes.get_ints("pads") or (0, 0, 0, 0))
    plain = all(step == 1 for step in attributes.get_ints("dilations") or ()) and not attributes.get_int("ceil_mode", 0)
    if x is None or kernel is None or not plain or attributes.get_string("auto_pad", "NOTSET") != "NOTSET":
        return None
    if pads[:2] != pads[2:]:
        return None
    strides = list(attributes.get_ints("strides") or (1, 1))
    return bench.op.MaxPoolNHWC(
        bench.last(x), _domain=GENERAL, kernel_shape=list(kernel), strides=strides, pads=pads, ceil_mode=0
    )


def _elementwise(bench: ChannelsLast, node: ir.Node) -> ir.Value | None:
    found: list[ir.Value | None] = []
    for value in node.inputs:
        held = constant(value)
        if value is None or (held is None and rank(value) != _IMAGE):
            return None
        found.append(bench.last(value) if held is None else bench.parameter(value, held))
    return None if None in found else bench.op.op(node.op_type, *found, **copy_attributes(node))


def _reduce_sum(bench: ChannelsLast, node: ir.Node) -> ir.Value | None:
    x, axes = node.inputs[0], constant(node.inputs[1]) if len(node.inputs) > 1 else None
    if x is None or axes is None or not node.attributes.get_int("keepdims", 1) or not axes.size:
        return None
    moved = np.array(sorted(_TO_LAST.index(int(axis) % _IMAGE) for axis in axes.reshape(-1)), np.int64)
    return bench.op.ReduceSum(bench.last(x), moved, **copy_attributes(node))


def _concat(bench: ChannelsLast, node: ir.Node) -> ir.Value | None:
    values = [value for value in node.inputs if value is not None and rank(value) == _IMAGE and constant(value) is None]
    if len(values) != len(node.inputs):
        return None
    axis = _TO_LAST.index(node.attributes.get_int("axis", 1) % _IMAGE)
    return bench.op.Concat(*map(bench.last, values), axis=axis)


def _flatten(bench: ChannelsLast, node: ir.Node) -> ir.Value | None:
    """Flatten images of one place, where it makes no difference in which order axes lie."""
    x = node.inputs[0]
    shape, result = static_shape(x), static_shape(node.outputs[0])
    if x is None or shape is None or result is None or shape[2:] != (1, 1) or len(result) == _IMAGE:
        return None
    return bench.op.Reshape(bench.last(x), np.array(result, np.int64))


CHANNELS_LAST.of("MultiThreshold", domains=(GENERAL,))(_multi_threshold)
CHANNELS_LAST.attach(
    {
        **dict.fromkeys(("Add", "Sub", "Mul", "Relu"), _elementwise),
        **dict.fromkeys(("Flatten", "Reshape"), _flatten),
        "Concat": _concat,
        "MaxPool": _max_pool,
        "ReduceSum": _reduce_sum,
    }
)
