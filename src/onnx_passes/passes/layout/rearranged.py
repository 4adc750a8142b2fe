"""Permute constants, and values that are computed from constants only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.arguments import argument, integer, integers
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant_tensor
from onnx_passes.graph.edits import carry_annotations
from onnx_passes.graph.permutations import inverse, permutation
from onnx_passes.graph.shapes import static_shape
from onnx_passes.graph.traits import is_elementwise
from onnx_passes.ops.definition import definition_of
from onnx_passes.ops.quantizer import Quantizer

Change = Callable[[np.ndarray], np.ndarray]
"""Moves elements of an array along its axes; axes of size one, to which the array broadcasts, move with the others."""

_LINEAR = ("QuantizeLinear", "DequantizeLinear")


def rearranged(op: Builder, value: ir.Value, length: int, change: Change) -> ir.Value | None:
    """Return a constant-valued expression of rank ``length`` with rearranged elements; None for other values.

    Quantizers and elementwise operators are rebuilt on rearranged constants.
    """
    tensor, node = constant_tensor(value), value.producer()
    if tensor is not None:
        return value if tensor.size == 1 else _constant(op, value, tensor, length, change)
    if node is None or len(node.outputs) != 1:
        return None
    if node.domain == "" and node.op_type in _LINEAR:
        return _linear(op, node, length, change)
    if node.domain == "" and node.op_type == "Transpose":
        return _transposed(op, node, length, change)
    if node.domain == "" and node.op_type == "ConstantOfShape":
        return _filled(op, node, length, change)
    if not is_elementwise(node) and not isinstance(definition_of(node), Quantizer):
        return None
    inputs = [None if given is None else rearranged(op, given, length, change) for given in node.inputs]
    if any(old is not None and new is None for old, new in zip(node.inputs, inputs, strict=True)):
        return None
    return _described(op.like(node, inputs), node, length, change)


def _constant(op: Builder, value: ir.Value, tensor: ir.TensorProtocol, length: int, change: Change) -> ir.Value | None:
    array = tensor.numpy()
    if array.ndim > length or tensor.dtype is ir.DataType.STRING:
        return None
    moved = change(array.reshape((1,) * (length - array.ndim) + array.shape))
    if moved.shape == array.shape and np.array_equal(moved, array):
        return value
    made = op.initializer(ir.Tensor(np.ascontiguousarray(moved), dtype=tensor.dtype), value.name)
    carry_annotations(value, made)
    return made


def _linear(op: Builder, node: ir.Node, length: int, change: Change) -> ir.Value | None:
    """Rearrange scales and zero points of an axis together with the tensor."""
    x, axis = argument(node, 0), integer(node, "axis", 1)
    moved = None if x is None else rearranged(op, x, length, change)
    if moved is None or axis is None or integer(node, "block_size", 0):
        return None
    given: list[ir.Value | None] = [moved]
    changed: dict[str, int] = {}
    for value in node.inputs[1:]:
        tensor = constant_tensor(value)
        if value is None or (tensor is not None and tensor.size == 1):
            given.append(value)
            continue
        if tensor is None or len(tensor.shape) != 1:
            return None
        turned = change(tensor.numpy().reshape([-1 if place == axis % length else 1 for place in range(length)]))
        changed["axis"] = int(np.argmax(turned.shape))
        given.append(op.initializer(ir.Tensor(turned.reshape(-1), dtype=tensor.dtype), value.name))
    return _described(op.like(node, given, **changed), node, length, change)


def _described(made: ir.Value, node: ir.Node, length: int, change: Change) -> ir.Value:
    """Set the shape of a rearranged result."""
    shape = static_shape(node.outputs[0])
    made.type = node.outputs[0].type
    if shape is not None and len(shape) == length:
        made.shape = ir.Shape(change(np.broadcast_to(np.int8(0), shape)).shape)
    return made


def _filled(op: Builder, node: ir.Node, length: int, change: Change) -> ir.Value | None:
    """Build a ConstantOfShape with the rearranged shape."""
    shape = integers(node, 0)
    if shape is None or len(shape) > length:
        return None
    moved = change(np.broadcast_to(np.int8(0), [1] * (length - len(shape)) + shape)).shape
    return _described(op.like(node, [np.array(moved, np.int64)]), node, length, change)


def _transposed(op: Builder, node: ir.Node, length: int, change: Change) -> ir.Value | None:
    """Rearrange the operand of a Transpose so that the result is as required."""
    perm, x = permutation(node, length), argument(node, 0)
    if perm is None or x is None or len(perm) != length:
        return None
    moved = rearranged(op, x, length, lambda array: change(array.transpose(perm)).transpose(inverse(perm)))
    return None if moved is None else _described(op.like(node, [moved]), node, length, change)
