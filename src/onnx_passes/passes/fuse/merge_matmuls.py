"""Merge products of one input with several matrices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.walk import all_nodes
from onnx_passes.graph import annotations
from onnx_passes.graph.arguments import argument
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant, grows
from onnx_passes.graph.shapes import is_common_float
from onnx_passes.graph.uses import is_used_elsewhere
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass

_RULE = "products of one input"
_PRODUCTS = ("Gemm", "MatMul")
_SIZES_ARE_INPUT = 13
_FROM_THE_END = 11
"""The first opset in which Split counts axes from the end."""


@passes.verify.tolerance
@passes.register(tags=("fuse",))
class MergeMatmuls(EditorPass):
    """Merge products of one input with constant matrices into one product and a Split.

    Rewrites: ``x @ a, x @ b, x @ c`` → ``Split(x @ [a, b, c])``; with constant biases ``x @ a + p, x @ b + q`` →
              ``Split(x @ [a, b] + [p, q])``; likewise for Gemm. Not part of ``simplify``, as Split copies the result:
              it pays where products are small, or where starting an operator is expensive.
    Refuses:  matrices that are not constant, of different types, annotated with a data type, or used elsewhere; Gemm
              nodes with different attributes, or some with and some without bias; opsets below 11.
    Exactness: rounding: sums of products may be taken in another order.
    """

    fast_math = ("reassoc", "contract", "nsz")
    needs = ("shape-inference",)

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Merge the products that read the same value."""
        places = {node: place for place, node in enumerate(all_nodes(editor.graph))}
        for x in list(dict.fromkeys(node.inputs[0] for node in all_nodes(editor.graph) if _is_product(node))):
            siblings = [] if x is None else [node for node in dict.fromkeys(x.consumers()) if _is_product(node)]
            for group in _groups(x, siblings, editor):
                _merge(editor, group, places)


@dataclass(frozen=True)
class _Product:
    """A product with a constant matrix, and its bias: an operand, or added by a separate node."""

    node: ir.Node
    matrix: np.ndarray
    bias: np.ndarray | None
    sum: ir.Node | None

    @property
    def result(self) -> ir.Value:
        return (self.sum or self.node).outputs[0]

    @property
    def axis(self) -> int:
        """Return the axis of the columns of the matrix."""
        return 0 if self.node.attributes.get_int("transB", 0) else 1

    @property
    def columns(self) -> int:
        return self.matrix.shape[self.axis]


def _is_product(node: ir.Node) -> bool:
    return node.domain == "" and node.op_type in _PRODUCTS


def _groups(x: ir.Value | None, siblings: Sequence[ir.Node], editor: Editor) -> Iterator[list[_Product]]:
    """Group the products that differ only in matrix and bias."""
    groups: dict[tuple[object, ...], list[_Product]] = {}
    for node in siblings if len(siblings) > 1 else ():
        found = _read(node, x)
        if isinstance(found, str):
            editor.refuse(_RULE, found, node)
            continue
        attributes = tuple(sorted((name, repr(attribute.value)) for name, attribute in node.attributes.items()))
        has_bias = node.op_type == "Gemm" and found.bias is not None
        key = (node.graph, node.op_type, attributes, found.matrix.dtype, found.matrix.shape[1 - found.axis], has_bias)
        groups.setdefault(key, []).append(found)
    for group in groups.values():
        if len(group) > 1:
            yield group
        else:
            editor.refuse(_RULE, "no sibling product reads the same input", group[0].node)


def _read(node: ir.Node, x: ir.Value | None) -> _Product | str:
    weights = argument(node, 1)
    matrix = constant(weights)
    if weights is None or matrix is None or matrix.ndim != 2 or node.inputs[0] is not x:
        return "its right operand is not a constant matrix"
    if not is_common_float(weights) or any(attribute.is_ref() for attribute in node.attributes.values()):
        return "it is not a product of floats, or refers to attributes of a function"
    if annotations.get(weights) or grows(weights):
        return "its matrix is annotated with a data type, or used elsewhere"
    columns = matrix.shape[0 if node.attributes.get_int("transB", 0) else 1]
    if node.op_type == "Gemm":
        bias = argument(node, 2)
        spread = _bias(constant(bias), columns)
        if bias is not None and spread is None:
            return "its bias is not constant, or varies along the rows"
        return _Product(node, matrix, spread, None)
    return _Product(node, matrix, *_added(node.outputs[0], columns))


def _added(product: ir.Value, columns: int) -> tuple[np.ndarray | None, ir.Node | None]:
    """Return the constant bias that an Add adds to a product, and the Add; None for both otherwise."""
    users = product.consumers()
    if is_used_elsewhere(product) or len(users) != 1 or (users[0].domain, users[0].op_type) != ("", "Add"):
        return None, None
    other = next((value for value in users[0].inputs if value is not product), None)
    bias = _bias(constant(other), columns)
    return (None, None) if bias is None or users[0].graph is not product.graph else (bias, users[0])


def _bias(array: np.ndarray | None, columns: int) -> np.ndarray | None:
    """Return a bias as one number per column; None if it has rank above one or another size."""
    if array is None or array.ndim > 1 or array.size not in (1, columns):
        return None
    return np.broadcast_to(array.reshape(-1), (columns,))


def _merge(editor: Editor, group: Sequence[_Product], places: Mapping[ir.Node, int]) -> None:
    # If not all products have a bias, the biases are added after the Split.
    if group[0].node.op_type == "MatMul" and any(product.bias is None for product in group):
        group = [_Product(product.node, product.matrix, None, None) for product in group]
    nodes = [node for product in group for node in (product.node, product.sum) if node is not None]
    nodes.sort(key=places.__getitem__)
    with editor.rewrite(_RULE, nodes[-1], matched=nodes) as r:
        if r.op.opset < _FROM_THE_END:
            r.refuse("Split counts axes from the front in this opset")
            return
        parts = _split(r.op, _product(r.op, group), [product.columns for product in group])
        r.op.places.update(dict.fromkeys(r.op.nodes, nodes[0]))
        r.replace_all({product.result: part for product, part in zip(group, parts, strict=True)})


def _product(op: Builder, group: Sequence[_Product]) -> ir.Value:
    first = group[0]
    x, weights = first.node.inputs[:2]
    matrix = op.initializer(np.concatenate([p.matrix for p in group], first.axis), weights.name if weights else None)
    biases = [product.bias for product in group if product.bias is not None]
    bias = [op.initializer(np.concatenate(biases))] if biases else []
    if first.node.op_type == "Gemm":
        return op.like(first.node, [x, matrix, *bias])
    product = op.MatMul(x, matrix)
    return op.Add(product, *bias) if bias else product


def _split(op: Builder, whole: ir.Value, sizes: Sequence[int]) -> Sequence[ir.Value]:
    if op.opset < _SIZES_ARE_INPUT:
        return op.Split(whole, axis=-1, split=list(sizes), _outputs=len(sizes))
    return op.Split(whole, np.array(sizes, np.int64), axis=-1, _outputs=len(sizes))
