"""Lower the operator RotaryEmbedding to products and sums."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.walk import all_nodes
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.shapes import dimension, rank
from onnx_passes.rewrite.editor import Editor, Rewrite
from onnx_passes.rewrite.passes import EditorPass

_TYPES = (ir.DataType.FLOAT, ir.DataType.FLOAT16)
_FLAT = 3


@passes.verify.tolerance
@passes.register("lower")
class LowerRotaryEmbedding(EditorPass):
    """Lower RotaryEmbedding to products and sums of halves, or of neighbours.

    Rewrites: ``RotaryEmbedding(x, cos, sin)`` → ``Concat(a * cos - b * sin, a * sin + b * cos)`` with ``a, b =
              Split(x)``; angles by position → ``Gather``; unrotated elements are kept.
    Refuses:  unknown numbers or sizes of heads; other types than single and half precision.
    Exactness: rounding.
    """

    lowers = ("RotaryEmbedding",)
    needs = ("shape-inference",)
    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Lower the nodes of the graph and its subgraphs."""
        for node in [
            node for node in all_nodes(editor.graph) if (node.domain, node.op_type) == ("", "RotaryEmbedding")
        ]:
            with editor.rewrite("LowerRotaryEmbedding", node) as r:
                _lower(r, node)


def _lower(r: Rewrite, node: ir.Node) -> None:
    x, *angles = node.inputs[:3]
    heads, width = node.attributes.get_int("num_heads", 0), dimension(x, -1)
    is_flat = rank(x) == _FLAT
    if x is None or x.dtype not in _TYPES:
        r.refuse("the input is not of single or half precision", at=x)
        return
    if rank(x) is None or width is None or (is_flat and not heads):
        r.refuse("the number of heads or the size of a head is not known", at=x)
        return
    op = r.op
    size = width // heads if is_flat else width
    turned = node.attributes.get_int("rotary_embedding_dim", 0) or size
    parts = op.Reshape(x, [0, 0, heads, size]) if is_flat else x
    positions = node.inputs[3] if len(node.inputs) > 3 else None
    # The axis of heads comes after that of positions if heads are split here, and before it otherwise.
    cos, sin = (
        op.Unsqueeze(angle if positions is None else op.Gather(angle, positions, axis=0), [2 if is_flat else 1])
        for angle in angles
    )
    rest = None
    if turned < size:
        parts, rest = op.Split(parts, [turned, size - turned], axis=-1, _outputs=2)
    result = _rotated(op, parts, cos, sin, turned, interleaved=bool(node.attributes.get_int("interleaved", 0)))
    if rest is not None:
        result = op.Concat(result, rest, axis=-1)
    r.replace(node.outputs[0], op.Reshape(result, [0, 0, width]) if is_flat else result)


def _rotated(op: Builder, x: ir.Value, cos: ir.Value, sin: ir.Value, size: int, *, interleaved: bool) -> ir.Value:
    if interleaved:
        a, b = (op.Slice(x, [start], [size], [3], [2]) for start in (0, 1))
    else:
        a, b = op.Split(x, [size // 2, size // 2], axis=-1, _outputs=2)
    first, second = op.Sub(op.Mul(a, cos), op.Mul(b, sin)), op.Add(op.Mul(a, sin), op.Mul(b, cos))
    if not interleaved:
        return op.Concat(first, second, axis=-1)
    pairs = op.Concat(op.Unsqueeze(first, [-1]), op.Unsqueeze(second, [-1]), axis=-1)
    return op.Reshape(pairs, [0, 0, 0, size])
