"""QONNX's channels-last forms of convolutions, pooling and normalization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.arguments import argument, integer
from onnx_passes.graph.shapes import dims, rank, static_shape
from onnx_passes.ops.definition import CHANNELS_LAST_DOMAIN
from onnx_passes.ops.windows import pads_of
from onnx_passes.passes.layout.images import CHANNELS_LAST, ChannelsLast, ChannelsLastForm
from onnx_passes.rewrite.refusal import Refusal, no

_AXES_ARE_INPUTS = {"ReduceMean": 18, "ReduceMax": 18}


def _windows(node: ir.Node, kernel: list[int] | None) -> dict[str, Any] | Refusal:
    """Return the window attributes of QONNX, with explicit padding."""
    if any(attribute.is_ref() for attribute in node.attributes.values()):
        return no("it has attributes of a function", at=node)
    if kernel is None:
        return no("the size of its windows is not known", at=node)
    count = len(kernel)
    pads = pads_of(node, kernel)
    if pads is None:
        return no("auto_pad needs the size of the image, which is not known", at=node)
    return {
        "kernel_shape": list(kernel),
        "strides": list(node.attributes.get_ints("strides") or (1,) * count),
        "dilations": list(node.attributes.get_ints("dilations") or (1,) * count),
        "pads": pads,
    }


def _conv(images: ChannelsLast, node: ir.Node) -> ir.Value | Refusal:
    x, weights = argument(node, 0), argument(node, 1)
    shape = dims(weights)
    if x is None or weights is None or shape is None:
        return no("the shape of the weights is not known", at=node)
    kernel = [size for size in shape[2:] if isinstance(size, int)]
    windows = _windows(node, kernel if len(kernel) == len(shape) - 2 else None)
    if isinstance(windows, Refusal):
        return windows
    inputs = [images.last(x), images.last(weights), *node.inputs[2:]]
    group = node.attributes.get_int("group", 1)
    return _made(images, node, inputs, group=group, **windows)


def _conv_transpose(images: ChannelsLast, node: ir.Node) -> ir.Value | Refusal:
    if "output_shape" in node.attributes or node.attributes.get_string("auto_pad", "NOTSET") != "NOTSET":
        return no("its padding depends on output_shape or auto_pad", at=node)
    made = _conv(images, node)
    more = node.attributes.get("output_padding")
    if isinstance(made, ir.Value) and more is not None:
        made.producer().attributes.add(more)  # pyright: ignore[reportOptionalMemberAccess]
    return made


def _max_pool(images: ChannelsLast, node: ir.Node) -> ir.Value | Refusal:
    return _pool(images, node, ceil_mode=integer(node, "ceil_mode", 0))


def _average_pool(images: ChannelsLast, node: ir.Node) -> ir.Value | Refusal:
    counted = integer(node, "count_include_pad", 0)
    return _pool(images, node, ceil_mode=integer(node, "ceil_mode", 0), count_include_pad=counted)


def _pool(images: ChannelsLast, node: ir.Node, **more: int | None) -> ir.Value | Refusal:
    x, kernel = argument(node, 0), node.attributes.get_ints("kernel_shape")
    windows = _windows(node, None if kernel is None else list(kernel))
    if isinstance(windows, Refusal) or x is None:
        return windows if isinstance(windows, Refusal) else no("it has no input", at=node)
    return _made(images, node, [images.last(x)], **windows, **more)


def _batch_normalization(images: ChannelsLast, node: ir.Node) -> ir.Value | Refusal:
    x = argument(node, 0)
    if x is None or integer(node, "training_mode", 0) or integer(node, "spatial", 1) != 1:
        return no("it is in training mode, or has parameters for each pixel", at=node)
    numbers = {name: node.attributes.get_float(name, usual) for name, usual in (("epsilon", 1e-5), ("momentum", 0.9))}
    return _made(images, node, [images.last(x), *node.inputs[1:5]], **numbers)


def _made(images: ChannelsLast, node: ir.Node, inputs: Sequence[ir.Value | None], **attributes: Any) -> ir.Value:
    """Build the operator of the same name in QONNX's domain, whose versions are those of ONNX."""
    imports = images.editor.scope.container.opset_imports
    version = imports.get(CHANNELS_LAST_DOMAIN, images.op.opset)
    return images.op.op(node.op_type, *inputs, _domain=CHANNELS_LAST_DOMAIN, _version=version, **attributes)


def _reduced(operator: str, *, exact: bool) -> ChannelsLastForm:
    """Return the form of a reduction over all spatial axes."""

    def build(images: ChannelsLast, node: ir.Node) -> ir.Value | Refusal:
        x = argument(node, 0)
        shape, length = static_shape(x), rank(x)
        if x is None or length is None or (shape is not None and 0 in shape):
            return no("the image is empty, or its rank is not known", at=node)
        axes = list(range(1, length - 1))
        if images.op.opset < _AXES_ARE_INPUTS[operator]:
            return images.op.op(operator, images.last(x), axes=axes, keepdims=1)
        return images.op.op(operator, images.last(x), np.array(axes, np.int64), keepdims=1)

    return ChannelsLastForm(build, starts=False, exact=exact)


CHANNELS_LAST.attach(
    {
        "AveragePool": ChannelsLastForm(_average_pool, in_qonnx=False),
        "BatchNormalization": ChannelsLastForm(_batch_normalization),
        "Conv": ChannelsLastForm(_conv),
        "ConvTranspose": ChannelsLastForm(_conv_transpose, in_qonnx=False),
        "GlobalAveragePool": _reduced("ReduceMean", exact=False),
        "GlobalMaxPool": _reduced("ReduceMax", exact=False),
        "MaxPool": ChannelsLastForm(_max_pool),
    }
)
