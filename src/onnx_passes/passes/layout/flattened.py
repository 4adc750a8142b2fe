"""Operators on flattened transposed images: dense layers, and operators before them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.arguments import argument, integer
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant_tensor
from onnx_passes.graph.permutations import Permutation, inverse, permutation, permuted
from onnx_passes.graph.shapes import Dim, dims, rank, same_dim
from onnx_passes.passes.layout.rearranged import rearranged
from onnx_passes.passes.move.axes import Handler, elementwise
from onnx_passes.passes.move.quantizer_axes import past_quantizer
from onnx_passes.rewrite.refusal import Refusal, Rewritten, no

_MATRIX = 2


class Flattened(NamedTuple):
    """An image that is transposed, then flattened after the batch axis; ``sizes`` are the flattened axes of ``x``."""

    x: ir.Value
    perm: Permutation
    batch: Dim
    sizes: list[int]
    reshape: ir.Node

    @staticmethod
    def of(reshape: ir.Node | None) -> Flattened | Refusal:
        """Match a Flatten or Reshape of a Transpose."""
        transpose = None if reshape is None or not reshape.inputs[0] else reshape.inputs[0].producer()
        perm, x = permutation(transpose), None if transpose is None else transpose.inputs[0]
        sizes, flat = dims(x), None if reshape is None else dims(reshape.outputs[0])
        if reshape is None or x is None or perm is None or sizes is None or flat is None or perm[:1] != [0]:
            return no("the batch axis moves, or shapes are not known", at=reshape)
        if perm == sorted(perm):
            return no("the transposition is the identity", at=transpose)
        rest = [size for size in sizes[1:] if isinstance(size, int)]
        count = int(np.prod(rest))
        if len(rest) != len(sizes) - 1 or len(flat) != _MATRIX or flat[1] != count or not same_dim(flat[0], sizes[0]):
            return no("it is not known to flatten all axes but the batch", at=reshape)
        if count == 0:
            return no("the image is empty", at=reshape)
        return Flattened(x, perm, sizes[0], rest, reshape)

    @property
    def order(self) -> np.ndarray:
        """Return the position of each element of a row of ``x`` in a row of the transposed image."""
        before = permuted([1, *self.sizes], self.perm)
        places = np.arange(int(np.prod(self.sizes))).reshape(before)
        return places.transpose(inverse(self.perm)).reshape(-1)

    def again(self, op: Builder, value: ir.Value) -> ir.Value:
        """Flatten another image of the same size."""
        if self.reshape.op_type == "Flatten":
            return op.like(self.reshape, [value])
        batch = self.batch if isinstance(self.batch, int) else -1
        flat = op.Reshape(value, np.array([batch, int(np.prod(self.sizes))], np.int64))
        flat.shape = self.reshape.outputs[0].shape
        return flat


def before_flattening(op: Builder, node: ir.Node, handler: Handler | None) -> Rewritten:
    """Build a node on the image before its transposition and flattening."""
    flat = node.inputs[0]
    found = Flattened.of(None if flat is None else flat.producer())
    if isinstance(found, Refusal) or flat is None:
        return found if isinstance(found, Refusal) else None
    if node.domain == "" and node.op_type in ("MatMul", "Gemm"):
        return product_of_flattened(op, node, found)
    is_known = handler in (elementwise, past_quantizer)
    if handler is None or not is_known or len(flat.consumers()) > 1 or flat.is_graph_output():
        return no("it is not the only consumer of the flattened image", at=node)
    return _hoisted(op, node, found, handler)


def product_of_flattened(op: Builder, node: ir.Node, found: Flattened) -> Rewritten:
    """Build the product with weight rows in the order of the untransposed image."""
    across = node.op_type == "Gemm" and integer(node, "transB", 0)
    if node.op_type == "Gemm" and (integer(node, "transA", 0) != 0 or across is None):
        return no("the product contracts the batch axis", at=node)
    weights, order = argument(node, 1), found.order
    shape = dims(weights)
    axis = 1 if across else 0
    if weights is None or shape is None or len(shape) != _MATRIX or shape[axis] != len(order):
        return no("the weights are not a matrix with matching rows", at=weights)
    rows = rearranged(op, weights, _MATRIX, lambda array: array if array.shape[axis] == 1 else array.take(order, axis))
    if rows is None:
        return no("the weights are not constant", at=weights)
    return op.like(node, [found.again(op, found.x), rows, *node.inputs[2:]])


def _hoisted(op: Builder, node: ir.Node, found: Flattened, handler: Handler) -> Rewritten:
    """Build the node on the image instead of the flattened row, and flatten its result."""
    image = permuted([1, *found.sizes], found.perm)
    inputs: list[ir.Value | None] = [found.reshape.inputs[0]]
    for value in node.inputs[1:]:
        tensor = constant_tensor(value)
        if value is None or (tensor is not None and tensor.size == 1 and (rank(value) or 0) <= 1):
            inputs.append(value)
            continue
        if tensor is None or tensor.size != np.prod(image) or tensor.shape[-1] != tensor.size:
            return no("a parameter is not constant, or has not one number per element of a row", at=value)
        inputs.append(op.initializer(ir.Tensor(tensor.numpy().reshape(image), dtype=tensor.dtype), value.name))
    copy: ir.Value = op.like(node, inputs)
    before = dims(found.reshape.inputs[0])
    copy.type = node.outputs[0].type
    copy.shape = None if before is None else ir.Shape(before)
    producer = copy.producer()
    assert producer is not None
    moved = handler(op, producer, found.x, found.perm)
    if not isinstance(moved, ir.Value):
        return moved
    moved.type, moved.shape = copy.type, copy.shape
    transpose = moved.producer()
    if transpose is not None and transpose.inputs[0] is not None and before is not None:
        transpose.inputs[0].shape = ir.Shape(permuted(before, inverse(found.perm)))
        transpose.inputs[0].type = copy.type
    return found.again(op, moved)
