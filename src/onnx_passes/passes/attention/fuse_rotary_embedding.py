"""Fuse rotary embeddings into the operator RotaryEmbedding."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.walk import all_nodes
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import Dim, dimension, dims, rank, same_dim
from onnx_passes.graph.uses import is_standard, made_by
from onnx_passes.passes.attention.heads import HEADS_FIRST, SEQUENCE_FIRST, Heads, read_value
from onnx_passes.passes.attention.rotation import Rotation, halved, recognise
from onnx_passes.passes.attention.writing import fuse_each
from onnx_passes.rewrite.editor import Editor, Rewrite
from onnx_passes.rewrite.passes import EditorPass
from onnx_passes.rewrite.refusal import Refusal, no

_SINCE = 23
_RULE = "RotaryEmbedding"
Angles = tuple[ir.Value, ir.Value]


@passes.verify.tolerance
@passes.register("attention")
class FuseRotaryEmbedding(EditorPass):
    """Fuse the rotation of queries and keys by position into the operator RotaryEmbedding.

    Rewrites: ``x * cos + Concat(-second half of x, first half) * sin`` → ``RotaryEmbedding(x, cos, sin)``; also for
              pairs of neighbours instead of halves, for the first elements of each head only, and with angles that are
              computed or looked up. Where heads are split from ``[batch, sequence, heads * size]``, the rotation moves
              before the split; so does an existing RotaryEmbedding, whose angles are expanded over the batch.
    Refuses:  opsets below 23; a rotation in the opposite direction or of other elements; angles that differ between
              heads or between the elements of a pair; other types than single and half precision; an intermediate value
              with other consumers.
    Exactness: rounding.
    """

    needs = ("shape-inference",)
    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Fuse the rotations of the graph and its subgraphs, then move them before the split of heads."""
        shared: dict[tuple[Any, ...], Angles] = {}
        fuse_each(editor, _RULE, "Add", recognise, lambda r, rotation: _write(r, rotation, shared))
        for node in [node for node in all_nodes(editor.graph) if is_standard(node, "RotaryEmbedding")]:
            _improve(editor, node)


def _write(r: Rewrite, rotation: Rotation, shared: dict[tuple[Any, ...], Angles]) -> Refusal | None:
    if r.op.opset < _SINCE:
        return no(f"RotaryEmbedding needs opset {_SINCE}: run modernize or convert-opset", at=rotation.nodes[0])
    x, axis = rotation.x, rotation.heads_axis
    sizes = dims(x)
    if axis is None or sizes is None:
        return no("the angles are not known to be the same for all heads", at=rotation.cos)
    heads = Heads(x, HEADS_FIRST if axis == 1 else SEQUENCE_FIRST)
    if rotation.part is None and axis == 1:
        heads = read_value(x)
    batch, sequence = sizes[0], sizes[3 - axis]
    if not _fits(rotation.cos, axis, batch, sequence):
        return no("the angles are not known to be one for each position", at=rotation.cos)
    if axis != 1 and (heads.split is None or rotation.part is not None):
        return no("heads come after positions, and are not split from one axis", at=x)
    key = (rotation.cos, rotation.sin, rotation.interleaved, axis, str(batch), r.op.opset)
    angles = shared.get(key) or _angles(r.op, rotation, axis, batch)
    if angles is None:
        return no("the angles are not known to be the same for both elements of a pair", at=rotation.cos)
    attributes: dict[str, Any] = {"interleaved": 1} if rotation.interleaved else {}
    size = sizes[-1]
    if rotation.part is not None:
        first, last = rotation.part
        size = last - first
        x = r.op.Slice(x, [first], [last], [-1])
        heads = Heads(x, HEADS_FIRST)
    if rotation.size != size:
        attributes["rotary_embedding_dim"] = rotation.size
    r.replace(rotation.output, _rotated(r.op, heads, x, angles, attributes))
    shared[key] = angles
    return None


def _fits(angles: ir.Value, axis: int, batch: Dim, sequence: Dim) -> bool:
    sizes = dims(angles)
    if sizes is None:
        return False
    first = 1 if len(sizes) < len(HEADS_FIRST) else sizes[0]
    along = sizes[-2] if axis == 1 else sizes[1]
    return (first == 1 or same_dim(first, batch)) and same_dim(along, sequence)


def _angles(op: Builder, rotation: Rotation, axis: int, batch: Dim) -> Angles | None:
    """Build cosines and sines as ``[batch, sequence, size / 2]``; None if the elements of a pair differ."""
    made: list[ir.Value] = []
    for value in (rotation.cos, rotation.sin):
        half = halved(op, value, interleaved=rotation.interleaved)
        if half is None:
            return None
        half = op.Unsqueeze(half, [0]) if rank(value) != len(HEADS_FIRST) else _without(op, half, axis)
        if batch != 1 and (rank(value) != len(HEADS_FIRST) or dimension(value, 0) == 1):
            half = _for_each(op, half, rotation.x, batch)
        made.append(half)
    return made[0], made[1]


def _without(op: Builder, value: ir.Value, axis: int) -> ir.Value:
    """Remove an axis of size one, preferably by undoing the Unsqueeze that added it."""
    node = made_by(value, "Unsqueeze")
    axes = None if node is None else constant(node.inputs[1])
    if node is not None and axes is not None and axes.reshape(-1).tolist() == [axis] and node.inputs[0] is not None:
        return node.inputs[0]
    return op.Squeeze(value, [axis])


def _rotated(op: Builder, heads: Heads, x: ir.Value, angles: Angles, attributes: dict[str, Any]) -> ir.Value:
    split = heads.split
    count = None if split is None else heads.sizes[1]
    if split is None or not isinstance(count, int):
        return op.RotaryEmbedding(x, *angles, **attributes)
    flat = op.RotaryEmbedding(split.inputs[0], *angles, num_heads=count, **attributes)
    parts = op.like(split, [flat, split.inputs[1]])
    return op.Transpose(parts, perm=list(SEQUENCE_FIRST)) if x is not split.outputs[0] else parts


def _improve(editor: Editor, node: ir.Node) -> None:
    """Move the rotation before the split of heads, and expand its angles over the batch."""
    x, cos, sin = node.inputs[:3]
    if x is None or cos is None or sin is None or rank(x) != len(HEADS_FIRST):
        return
    heads, batch = read_value(x), (dims(x) or (1,))[0]
    split = None if x is heads.value else heads.split
    is_shared = rank(cos) == len(HEADS_FIRST) - 1 and dimension(cos, 0) == dimension(sin, 0) == 1 != batch
    if split is None and not is_shared:
        return
    with editor.rewrite(f"{_RULE} that is there", node) as r:
        angles = [_for_each(r.op, angle, x, batch) if is_shared else angle for angle in (cos, sin)]
        if split is None:
            r.replace(node.outputs[0], r.op.like(node, [x, *angles, *node.inputs[3:]]))
            return
        made = r.op.like(node, [split.inputs[0], *angles, *node.inputs[3:]], num_heads=heads.sizes[1])
        parts = r.op.like(split, [made, split.inputs[1]])
        r.replace(node.outputs[0], r.op.Transpose(parts, perm=list(SEQUENCE_FIRST)))


def _for_each(op: Builder, angles: ir.Value, x: ir.Value, batch: Dim) -> ir.Value:
    """Repeat angles for the whole batch: ONNX Runtime does not broadcast them over a batch."""
    if isinstance(batch, int):
        return op.Expand(angles, [batch, 1, 1])
    return op.Expand(angles, op.Concat(op.Shape(x, start=0, end=1), [1, 1], axis=0))
