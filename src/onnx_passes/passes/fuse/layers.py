"""Linear layers, whose results are scaled and shifted by changing the weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.graph import annotations
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant_tensor, finite_constant, grows
from onnx_passes.graph.shapes import dimension, rank, static_shape
from onnx_passes.ops.number_systems.constants import per_channel, rounded
from onnx_passes.rewrite.refusal import Refusal, Rewritten, no


@dataclass(frozen=True)
class Layer:
    """A node with weights of known ``shape``; ``axis`` of its result counts ``channels``.

    ``bias`` has one number per channel. Numbers are in double precision, so that the weights are rounded only once.
    """

    node: ir.Node
    dtype: ir.DataType
    shape: tuple[int, ...]
    bias: np.ndarray | None
    channels: int
    rank: int
    axis: int

    @staticmethod
    def of(node: ir.Node) -> Layer | Refusal:
        """Return a node as a layer, or the reason why it is none."""
        weights, tensor = node.inputs[1], constant_tensor(node.inputs[1])
        shape = static_shape(weights) if tensor is None else tuple(tensor.shape.numpy())
        dtype = (None if weights is None else weights.dtype) if tensor is None else tensor.dtype
        if shape is None or 0 in shape or dtype is None:
            return no("the weights are of unknown shape or type, or empty", at=weights)
        dims, axis = len(shape), 1
        match node.op_type:
            case "Conv":
                channels = shape[0]
            case "ConvTranspose":
                channels = shape[1] * node.attributes.get_int("group", 1)
            case "Gemm":
                channels = shape[0 if node.attributes.get_int("transB", 0) else 1]
            case _:
                known = rank(node.outputs[0])
                if known is None or dims != 2:
                    return no("the product is of unknown rank, or its weights are not a matrix", at=weights)
                channels, axis, dims = shape[1], known - 1, known
        bias = _bias_of(node, channels)
        return bias if isinstance(bias, Refusal) else Layer(node, dtype, shape, bias, channels, dims, axis)

    def spread(self, array: np.ndarray) -> np.ndarray | None:
        """Return a constant operand of the result as one number per channel; None if it varies otherwise."""
        return per_channel(array, self.rank, self.axis, self.channels)

    def weights(self) -> np.ndarray | Refusal:
        """Return the weights, which must be constant and not used elsewhere."""
        value = self.node.inputs[1]
        array = finite_constant(value)
        if value is None or array is None:
            return no("the weights are not constant and finite", at=value)
        if annotations.get(value):
            return no("the weights are annotated with a data type", at=value)
        return no("the weights are used elsewhere, too", at=value) if grows(value) else array

    def scaled(self, weights: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """Return the weights that scale the result by a factor per channel."""
        with np.errstate(all="ignore"):
            match self.node.op_type:
                case "Conv":
                    return weights * factors.reshape(-1, *[1] * (weights.ndim - 1))
                case "ConvTranspose":
                    groups = self.node.attributes.get_int("group", 1)
                    inputs, outputs, *kernel = weights.shape
                    grouped = weights.reshape(groups, inputs // groups, outputs, *kernel)
                    spread = factors.reshape(groups, 1, outputs, *[1] * len(kernel))
                    return (grouped * spread).reshape(weights.shape)
                case "Gemm" if self.node.attributes.get_int("transB", 0):
                    return weights * factors[:, None]
                case _:
                    return weights * factors

    def affine(self, op: Builder, factors: np.ndarray, shift: np.ndarray | None = None) -> Rewritten:
        """Build ``factors * layer + shift`` as one node, or refuse; a MatMul with a bias becomes a Gemm."""
        weights = self.weights()
        if isinstance(weights, Refusal):
            return weights
        bias = None if self.bias is None else self.bias * factors
        if shift is not None:
            bias = shift if bias is None else bias + shift
        return self.rebuild(op, self.scaled(weights, factors), bias)

    def shifted(self, op: Builder, shift: np.ndarray, x: ir.Value | None = None) -> Rewritten:
        """Build ``layer + shift`` as one node, with another input if given, or refuse."""
        return self.rebuild(op, None, shift if self.bias is None else self.bias + shift, x)

    def rebuild(
        self, op: Builder, weights: np.ndarray | None, bias: np.ndarray | None, x: ir.Value | None = None
    ) -> Rewritten:
        """Build the layer with new weights, bias and input, where given; all numbers must be finite."""
        made = [None if array is None else rounded(array, self.dtype) for array in (weights, bias)]
        if (weights is not None and made[0] is None) or (bias is not None and made[1] is None):
            return no("the new weights or the new bias would not be finite", at=self.node)
        return self._build(op, made[0], made[1], x or self.node.inputs[0])

    def _build(self, op: Builder, weights: np.ndarray | None, bias: np.ndarray | None, x: ir.Value | None) -> Rewritten:
        node = self.node
        _, given, *others = node.inputs
        if weights is not None and given is not None:
            given = op.initializer(weights, given.name)
        name = others[0].name if others and others[0] is not None else None
        added = None if bias is None else op.initializer(bias, name or "bias")
        attributes: dict[str, Any] = dict(node.attributes)
        if node.op_type == "Gemm":
            attributes.pop("beta", None)
        if node.op_type == "MatMul" and added is None:
            return op.MatMul(x, given)
        return op.op("Gemm" if node.op_type == "MatMul" else node.op_type, x, given, added, **attributes)


def _bias_of(node: ir.Node, channels: int) -> np.ndarray | Refusal | None:
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if bias is None:
        return None
    array = finite_constant(bias)
    if array is None:
        return no("the bias is not constant and finite", at=bias)
    if node.op_type != "Gemm":
        return array
    spread = per_channel(array, 2, 1, channels)
    if spread is None:
        return no("the bias is not one number for each column", at=bias)
    return spread * node.attributes.get_float("beta", 1.0)


def is_unpadded(node: ir.Node) -> bool:
    """Return whether a convolution or pooling has no padding."""
    mode = node.attributes.get_string("auto_pad", "NOTSET")
    return mode == "VALID" or (mode == "NOTSET" and not any(node.attributes.get_ints("pads", ())))


def per_input_channel(layer: Layer, x: ir.Value, array: np.ndarray) -> np.ndarray | None:
    """Return a constant operand of the input as one number per input channel; None if it varies otherwise."""
    channels = layer.shape[1] * layer.node.attributes.get_int("group", 1)
    if rank(x) != layer.rank or dimension(x, 1) != channels:
        return None
    return per_channel(array, layer.rank, 1, channels)
