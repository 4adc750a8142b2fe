"""Table of hls4ml's layers, and their restrictions."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import onnx_ir as ir

from onnx_passes.core.walk import holds_graphs
from onnx_passes.graph.constants import constant, is_constant
from onnx_passes.graph.operators import Interface
from onnx_passes.graph.shapes import dimension, rank, static_shape
from onnx_passes.graph.wording import name_of, operator_name
from onnx_passes.ops.definition import CHANNELS_LAST_DOMAIN
from onnx_passes.passes.qonnx.dialect import GENERAL

Objection = Callable[[ir.Node], str]
"""Returns the reason why hls4ml does not accept a node, with a remedy; empty if it does."""
HLS4ML: Interface[Objection] = Interface("hls4ml", "the reason why hls4ml does not accept it")

_ROUNDING = ("FLOOR", "ROUND")
_CHANNELS_LAST = "it supports channels last only: run convert-channels-last{inputs=true}, or hls4ml for all of it"
_IMAGES = (3, 4)


def unsupported(graph: ir.Graph) -> Iterator[str]:
    """Describe the nodes, inputs and outputs that hls4ml does not accept."""
    for value in graph.inputs:
        if static_shape(value) is None and any(dimension(value, axis) is None for axis in range(1, rank(value) or 2)):
            yield f"input '{value.name}' has unknown sizes besides the batch: fix them"
    for value in graph.outputs:
        if (
            is_constant(value)
            or (node := value.producer()) is None
            or is_constant(node.inputs[0] if node.inputs else None)
        ):
            yield f"output '{value.name}' is constant, not a layer of hls4ml: remove it from the model"
    for node in graph:
        reason = _reason(node)
        if reason:
            yield f"hls4ml does not accept {name_of(node)}: {reason}"


def _reason(node: ir.Node) -> str:
    objection = HLS4ML.get(node)
    if objection is not None:
        return objection(node)
    if holds_graphs(node):
        return "it has no control flow"
    if not node.domain and HLS4ML.get((CHANNELS_LAST_DOMAIN, node.op_type)) is not None:
        return _CHANNELS_LAST
    return f"it has no layer for {operator_name(node)}"


def _any(node: ir.Node) -> str:
    return ""


def _merge(node: ir.Node) -> str:
    if len(node.inputs) > 2:
        return f"it merges two tensors, not {len(node.inputs)}: use several nodes"
    shapes = {static_shape(value) for value in node.inputs if not _is_parameter(value)}
    return "" if len(shapes) < 2 else "its operands have different shapes, but hls4ml does not broadcast"


def _extreme(node: ir.Node) -> str:
    if any(_is_parameter(value) for value in node.inputs):
        return "it compares two activations, not constants: run convert-to-fixed-point"
    return _merge(node)


def _concat(node: ir.Node) -> str:
    return "" if len(node.inputs) <= 2 else f"it concatenates two tensors, not {len(node.inputs)}: use several nodes"


def _matmul(node: ir.Node) -> str:
    return "" if _is_parameter(node.inputs[1]) else "its second operand is not a weight"


def _softmax(node: ir.Node) -> str:
    length = rank(node.inputs[0])
    axis = node.attributes.get_int("axis", -1)
    return "" if length is not None and axis % length == length - 1 else "it has Softmax over the last axis only"


def _pad(node: ir.Node) -> str:
    mode = node.attributes.get_string("mode", "constant")
    held = constant(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] is not None else np.zeros(())
    return "" if mode == "constant" and held is not None and not held.any() else "it pads with zeros only"


def _normalization(node: ir.Node) -> str:
    return "" if node.domain or rank(node.inputs[0]) == 2 else _CHANNELS_LAST


def _conv(node: ir.Node) -> str:
    x, group = node.inputs[0], node.attributes.get_int("group", 1)
    if rank(x) not in _IMAGES:
        return "it has one- and two-dimensional convolutions only"
    if group not in (1, dimension(x, -1)):
        return "it has no grouped convolutions, except depthwise ones"
    if any(size != 1 for size in node.attributes.get_ints("dilations") or ()):
        return "it computes a wrong result size for dilated windows"
    return "" if all(_is_parameter(value) for value in node.inputs[1:]) else "its weights are computed"


def _pool(node: ir.Node) -> str:
    return "" if rank(node.inputs[0]) == 4 else "it confuses the axes of pooling that is not two-dimensional"


def _quant(node: ir.Node) -> str:
    held = [constant(value) for value in node.inputs[1:]]
    if any(array is None for array in held):
        return "its scale, zero point or bit width is computed"
    mode = node.attributes.get_string("rounding_mode", "ROUND")
    if mode not in _ROUNDING:
        return f"it rounds by {' or '.join(_ROUNDING)}, and fails on {mode}: {_remedy(mode)}"
    if node.attributes.get_int("narrow", 0) and not node.attributes.get_int("signed", 1):
        return "its range is narrow and unsigned"
    bits = held[-1]
    return "" if bits is not None and bits.size == 1 else "its bit width varies by channel"


def _remedy(mode: str) -> str:
    if mode.startswith("HALF_"):
        return f"quantize by ROUND, which differs from {mode} at ties only"
    return f"quantize by {' or '.join(_ROUNDING)}"


def _bipolar(node: ir.Node) -> str:
    return "products of -1 and 1 are computed wrongly: run convert-to-fixed-point, which converts them to bits"


def _thresholds(node: ir.Node) -> str:
    return "it has quantizers, not thresholds: run convert-thresholds-to-quant, or hls4ml instead of streamline"


def _global_pool(node: ir.Node) -> str:
    return "it confuses channels and pixels: run convert-channels-last and convert-to-fixed-point"


def _is_parameter(value: ir.Value | None) -> bool:
    """Return whether a value is constant, quantized or not."""
    node = None if value is None else value.producer()
    if node is not None and (node.domain, node.op_type) in ((GENERAL, "Quant"), (GENERAL, "BipolarQuant")):
        return is_constant(node.inputs[0])
    return is_constant(value)


HLS4ML.attach(
    {
        **dict.fromkeys(("Dropout", "Flatten", "Identity", "Reshape", "Resize", "Transpose"), _any),
        **dict.fromkeys(("Elu", "LeakyRelu", "PRelu", "Relu", "Selu", "Sigmoid", "Softplus", "Softsign"), _any),
        **dict.fromkeys(("Tanh", "ThresholdedRelu"), _any),
        **dict.fromkeys(("Add", "Div", "Mul", "Sub", "Sum"), _merge),
        **dict.fromkeys(("Max", "Min"), _extreme),
        **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool"), _global_pool),
        "BatchNormalization": _normalization,
        "Concat": _concat,
        "MatMul": _matmul,
        "Pad": _pad,
        "Softmax": _softmax,
    }
)
HLS4ML.attach(
    {"AveragePool": _pool, "BatchNormalization": _normalization, "Conv": _conv, "MaxPool": _pool},
    domains=(CHANNELS_LAST_DOMAIN,),
)
HLS4ML.attach(
    {"BipolarQuant": _bipolar, "IntQuant": _quant, "MultiThreshold": _thresholds, "Quant": _quant}, domains=(GENERAL,)
)
