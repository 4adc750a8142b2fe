"""Lower the operator Attention to products and a softmax."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.walk import all_nodes
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.shapes import dimension, rank
from onnx_passes.rewrite.editor import Editor, Rewrite
from onnx_passes.rewrite.passes import EditorPass

_TYPES = (ir.DataType.FLOAT, ir.DataType.FLOAT16)
_FLAT = 3
_MASK, _PAST_KEY, _PAST_VALUE, _LENGTHS = 3, 4, 5, 6


@passes.verify.tolerance
@passes.register("lower")
class LowerAttention(EditorPass):
    """Lower Attention to products, a softmax, and operators that split, repeat and cache heads.

    Rewrites: ``Attention(q, k, v, mask)`` → ``MatMul(Softmax(MatMul(q * scale, Transpose(k)) + mask), v)``, where fully
              masked rows give zeros; with causal masks, groups of queries, cached keys and values, a soft cap, and
              heads in one axis with their size; half precision is computed in single precision.
    Refuses:  scores that are used; lengths without padding; unknown numbers or sizes of heads; other types than single
              and half precision.
    Exactness: rounding.
    """

    lowers = ("Attention",)
    needs = ("shape-inference",)
    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Lower the nodes of the graph and its subgraphs."""
        for node in [node for node in all_nodes(editor.graph) if (node.domain, node.op_type) == ("", "Attention")]:
            with editor.rewrite("LowerAttention", node) as r:
                _lower(r, node)


def _lower(r: Rewrite, node: ir.Node) -> None:
    inputs = [*node.inputs, *[None] * (_LENGTHS + 1 - len(node.inputs))]
    q, k, v = inputs[:3]
    if q is None or k is None or v is None or q.dtype not in _TYPES or v.dtype != q.dtype:
        r.refuse("the inputs are not of single or half precision", at=node)
        return
    if inputs[_LENGTHS] is not None or any(output.uses() or output.is_graph_output() for output in node.outputs[3:]):
        r.refuse("its scores, or lengths without padding, are used", at=node)
        return
    sizes = _sizes(node, q, k, v)
    if sizes is None:
        r.refuse("the numbers of heads or the size of a head are not known", at=q)
        return
    queries, keys, size, value_size = sizes
    op = r.op
    q, k, v = (_split(op, x, n, d) for x, n, d in ((q, queries, size), (k, keys, size), (v, keys, value_size)))
    past = inputs[_PAST_KEY]
    if past is not None:
        k, v = op.Concat(past, k, axis=2), op.Concat(inputs[_PAST_VALUE], v, axis=2)
    replaced = dict(zip(node.outputs[1:3], (k, v), strict=False))
    k, v = (_repeated(op, x, queries, keys, d) for x, d in ((k, size), (v, value_size)))
    # Kernels compute attention of half precision in single precision.
    is_half, mask = q.dtype is ir.DataType.FLOAT16, inputs[_MASK]
    if is_half:
        q, k, v = (op.Cast(x, to=ir.DataType.FLOAT.value) for x in (q, k, v))
    if mask is not None and mask.dtype is ir.DataType.FLOAT16:
        mask = op.Cast(mask, to=ir.DataType.FLOAT.value)
    scale = node.attributes.get_float("scale", 1 / math.sqrt(size))
    scores = op.MatMul(op.Mul(q, scale), op.Transpose(k, perm=[0, 1, 3, 2]))
    result = op.MatMul(_weights(op, node, scores, mask, q, k), v)
    if is_half:
        result = op.Cast(result, to=ir.DataType.FLOAT16.value)
    if rank(node.inputs[0]) == _FLAT:
        result = op.Reshape(op.Transpose(result, perm=[0, 2, 1, 3]), [0, 0, queries * value_size])
    r.replace(node.outputs[0], result)
    for old, new in replaced.items():
        if old.name and (old.uses() or old.is_graph_output()):
            r.replace(old, op.Identity(new) if past is None else new)


def _sizes(node: ir.Node, q: ir.Value, k: ir.Value, v: ir.Value) -> tuple[int, int, int, int] | None:
    """Return the numbers of query and key heads, and the head sizes of queries and values; None if unknown."""
    if rank(q) == _FLAT:
        queries, keys = (node.attributes.get_int(name, 0) for name in ("q_num_heads", "kv_num_heads"))
        widths = (dimension(q, -1), dimension(v, -1))
        if not queries or not keys or None in widths:
            return None
        return queries, keys, (widths[0] or 0) // queries, (widths[1] or 0) // keys
    found = (dimension(q, 1), dimension(k, 1), dimension(q, -1), dimension(v, -1))
    queries, keys, size, value_size = found
    if queries is None or not keys or not size or value_size is None:
        return None
    return queries, keys, size, value_size


def _split(op: Builder, x: ir.Value, heads: int, size: int) -> ir.Value:
    return op.Transpose(op.Reshape(x, [0, 0, heads, size]), perm=[0, 2, 1, 3]) if rank(x) == _FLAT else x


def _repeated(op: Builder, x: ir.Value, queries: int, keys: int, size: int) -> ir.Value:
    if queries == keys:
        return x
    wide = op.Expand(op.Unsqueeze(x, [2]), [1, 1, queries // keys, 1, 1])
    return op.Reshape(wide, [0, queries, -1, size])


def _weights(op: Builder, node: ir.Node, scores: ir.Value, mask: ir.Value | None, q: ir.Value, k: ir.Value) -> ir.Value:
    least = op.initializer(np.array(-np.inf, np.float32), "masked")
    cap = node.attributes.get_float("softcap", 0.0)
    if cap:
        scores = op.Mul(op.Tanh(op.Div(scores, cap)), cap)
    if mask is not None:
        scores = op.Where(mask, scores, least) if mask.dtype is ir.DataType.BOOL else op.Add(scores, mask)
    if node.attributes.get_int("is_causal", 0):
        scores = op.Where(_causal(op, node, q, k), scores, least)
    weights = op.Softmax(scores, axis=-1)
    return weights if mask is None else op.Where(op.IsNaN(weights), np.zeros((), np.float32), weights)


def _causal(op: Builder, node: ir.Node, q: ir.Value, k: ir.Value) -> ir.Value:
    """Build the mask that is true for keys not after the query, counted from the end of the cache."""
    queries, keys = (op.Squeeze(op.Shape(x, start=2, end=3), [0]) for x in (q, k))
    zero, one = np.array(0, np.int64), np.array(1, np.int64)
    rows = op.Range(zero, queries, one)
    past = node.inputs[_PAST_KEY] if len(node.inputs) > _PAST_KEY else None
    if past is not None:
        rows = op.Add(rows, op.Shape(past, start=2, end=3))
    return op.GreaterOrEqual(op.Unsqueeze(rows, [1]), op.Range(zero, keys, one))
