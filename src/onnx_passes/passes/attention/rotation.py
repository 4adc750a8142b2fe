"""Match rotary embeddings ``x * cos + rotated(x) * sin``: of halves or neighbours, of all or some elements."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant, number
from onnx_passes.graph.shapes import dimension, dims, rank
from onnx_passes.graph.uses import is_standard, is_used_elsewhere, made_by
from onnx_passes.rewrite.refusal import Refusal, no

_TYPES = (ir.DataType.FLOAT, ir.DataType.FLOAT16)
_RANK = 4
_KEEPS_PLACES = ("Cast", "Cos", "Identity", "Sin")


@dataclass(frozen=True)
class StridedSlice:
    """Every ``step``-th element of the last axis of ``source``, from ``start`` to before ``stop``."""

    source: ir.Value
    start: int
    stop: int
    step: int

    @staticmethod
    def of(value: ir.Value) -> StridedSlice | None:
        """Return a value as a piece of the tensor it was sliced or split from; None if its size is unknown."""
        node, size = made_by(value, "Slice", "Split"), dimension(value, -1)
        if size is None:
            return None
        if node is not None and node.inputs[0] is not None:
            outer = StridedSlice.of(node.inputs[0])
            found = None if outer is None else _sliced(node) if node.op_type == "Slice" else _split_off(node, value)
            if outer is not None and found is not None:
                first, step = found
                start = outer.start + first * outer.step
                step *= outer.step
                return StridedSlice(outer.source, start, start + (size - 1) * step + 1, step)
        return StridedSlice(value, 0, size, 1)


@dataclass(frozen=True)
class Rotation:
    """A rotation of the first ``size`` elements of ``x``; ``nodes`` compute it, the last node first.

    ``part`` is the range of ``x`` to slice first, if any.
    """

    x: ir.Value
    cos: ir.Value
    sin: ir.Value
    size: int
    interleaved: bool
    nodes: tuple[ir.Node, ...]
    part: tuple[int, int] | None = None

    @property
    def output(self) -> ir.Value:
        """Return the rotated value."""
        return self.nodes[0].outputs[0]

    @property
    def own_nodes(self) -> list[ir.Node]:
        """Return the nodes of the rotation, the last one at the end."""
        return list(self.nodes[::-1])

    @property
    def heads_axis(self) -> int | None:
        """Return the axis of heads of ``x``, over which the angles are constant; None if unknown."""
        sizes = dims(self.cos)
        if sizes is None or dims(self.sin) != sizes:
            return None
        if len(sizes) == _RANK - 2:
            return 1
        return next((axis for axis in (1, 2) if sizes[axis] == 1), None) if len(sizes) == _RANK else None


def recognise(last: ir.Node) -> Rotation | Refusal | None:
    """Match Add as a rotary embedding; None if neither operand is a rotated value times a factor."""
    if not is_standard(last, "Add"):
        return None
    first, second = (made_by(value, "Mul") for value in last.inputs)
    for straight, turned in ((first, second), (second, first)):
        if straight is None or turned is None:
            continue
        for y, sin in (turned.inputs[:2], turned.inputs[1::-1]):
            found = _match_rotated_half(y)
            if found is not None and sin is not None and y is not None:
                return _read(last, straight, turned, sin, found)
    return None


@dataclass(frozen=True)
class _RotatedHalf:
    negated: StridedSlice
    kept: StridedSlice
    interleaved: bool
    nodes: tuple[ir.Node, ...]


def _read(
    last: ir.Node, straight: ir.Node, turned: ir.Node, sin: ir.Value, found: _RotatedHalf
) -> Rotation | Refusal | None:
    for value, cos in (straight.inputs[:2], straight.inputs[1::-1]):
        piece = None if value is None else StridedSlice.of(value)
        if value is None or cos is None or piece is None or piece.source is not found.kept.source:
            continue
        nodes = (last, straight, turned, *found.nodes)
        if any(is_used_elsewhere(node.outputs[0]) for node in nodes[1:]):
            return no("a value inside is used elsewhere, too", at=last)
        if rank(value) != _RANK or value.dtype not in _TYPES or cos.dtype != value.dtype or sin.dtype != value.dtype:
            return no("it is not a tensor of heads in single or half precision", at=value)
        size, start, stop = piece.stop - piece.start, piece.start, piece.stop
        half = start + size // 2
        parts = (
            ((start, stop - 1, 2), (start + 1, stop, 2)) if found.interleaved else ((start, half, 1), (half, stop, 1))
        )
        if piece.step != 1 or size % 2:
            return no("the rotated elements are not an even number of consecutive ones", at=value)
        if [(part.start, part.stop, part.step) for part in (found.kept, found.negated)] != list(parts):
            return no("the rotation is not of halves or neighbours, first against second", at=value)
        return _with_unrotated(Rotation(value, cos, sin, size, found.interleaved, nodes), piece)
    return no("sine and cosine do not multiply the same value", at=last)


def _with_unrotated(rotation: Rotation, piece: StridedSlice) -> Rotation:
    """Include the unrotated elements, if they are concatenated after the rotated ones."""
    (use, *others) = [*rotation.output.uses(), None]
    join = None if use is None or others != [None] or rotation.output.is_graph_output() else use.node
    if not is_standard(join, "Concat") or len(join.inputs) != 2 or join.inputs[1] is None:
        return rotation
    rest = StridedSlice.of(join.inputs[1])
    is_last = join.attributes.get_int("axis", 0) in (-1, _RANK - 1)
    if not is_last or join.inputs[0] is not rotation.output or rest is None:
        return rotation
    if (rest.source, rest.start, rest.step) != (piece.source, piece.stop, 1):
        return rotation
    is_whole = (piece.start, rest.stop) == (0, dimension(piece.source, -1))
    part = None if is_whole else (piece.start, rest.stop)
    return replace(rotation, x=piece.source, nodes=(join, *rotation.nodes), part=part)


def _match_rotated_half(value: ir.Value | None) -> _RotatedHalf | None:
    """Match ``Concat(-b, a)``, or the same of pairs of neighbours."""
    node = made_by(value, "Concat", "Reshape")
    if is_standard(node, "Concat"):
        return _joined(node, (node,), list(node.inputs), interleaved=False)
    stack = None if node is None else made_by(node.inputs[0], "Concat")
    if node is None or stack is None:
        return None
    inserts = [None if part is None else part.producer() for part in stack.inputs]
    parts = [insert.inputs[0] for insert in inserts if insert is not None and _adds_last_axis(insert)]
    kept = tuple(insert for insert in inserts if insert is not None)
    return _joined(stack, (node, stack, *kept), parts, interleaved=True) if len(parts) == len(stack.inputs) else None


def _joined(
    concat: ir.Node, nodes: tuple[ir.Node, ...], parts: list[ir.Value | None], *, interleaved: bool
) -> _RotatedHalf | None:
    length = rank(concat.outputs[0])
    if length is None or len(parts) != 2 or concat.attributes.get_int("axis", 0) not in (-1, length - 1):
        return None
    first, kept = parts
    negation = made_by(first, "Neg")
    if negation is None or negation.inputs[0] is None or kept is None:
        return None
    a, b = StridedSlice.of(kept), StridedSlice.of(negation.inputs[0])
    if a is None or b is None or a.source is not b.source:
        return None
    return _RotatedHalf(b, a, interleaved, (*nodes, negation))


def _adds_last_axis(node: ir.Node) -> bool:
    axes = constant(node.inputs[1]) if is_standard(node, "Unsqueeze") and len(node.inputs) > 1 else None
    length = rank(node.outputs[0])
    return axes is not None and length is not None and axes.reshape(-1).tolist() in ([-1], [length - 1])


def _sliced(node: ir.Node) -> tuple[int, int] | None:
    """Return start and step of a Slice of the last axis only; None otherwise."""
    length, size = rank(node.inputs[0]), dimension(node.inputs[0], -1)
    given = [constant(value) for value in node.inputs[1:]]
    if length is None or size is None or len(given) < 3 or any(array is None or array.size != 1 for array in given):
        return None
    start, _, axis, step = [int(array.reshape(-1)[0]) for array in given if array is not None] + (
        [1] if len(given) < 4 else []
    )
    if axis not in (-1, length - 1) or step < 1:
        return None
    return min(max(start + size if start < 0 else start, 0), size), step


def _split_off(node: ir.Node, value: ir.Value) -> tuple[int, int] | None:
    length = rank(node.inputs[0])
    if length is None or node.attributes.get_int("axis", 0) not in (-1, length - 1):
        return None
    sizes = [dimension(output, -1) for output in node.outputs[: list(node.outputs).index(value)]]
    return None if None in sizes else (sum(size or 0 for size in sizes), 1)


def halved(op: Builder, value: ir.Value, *, interleaved: bool) -> ir.Value | None:
    """Build the distinct element of each equal pair of the last axis (halves or neighbours); None if pairs differ."""
    array, node, size = constant(value), value.producer(), dimension(value, -1)
    if size is None:
        return None
    if array is not None:
        first, second = (array[..., ::2], array[..., 1::2]) if interleaved else np.split(array, 2, axis=-1)
        return op.initializer(np.ascontiguousarray(first), value.name) if np.array_equal(first, second) else None
    if node is None or node.domain or not node.inputs or node.inputs[0] is None:
        return None
    if node.op_type in _KEEPS_PLACES:
        inner = halved(op, node.inputs[0], interleaved=interleaved)
        return None if inner is None else op.like(node, [inner])
    if node.op_type == "Mul":
        for x, c in (node.inputs[:2], node.inputs[1::-1]):
            if x is not None and number(c, x) is not None:
                inner = halved(op, x, interleaved=interleaved)
                return None if inner is None else op.Mul(inner, c)
    if node.op_type == "Gather" and node.attributes.get_int("axis", 0) == 0 and (rank(node.inputs[0]) or 0) > 1:
        inner = halved(op, node.inputs[0], interleaved=interleaved)
        return None if inner is None else op.like(node, [inner, node.inputs[1]])
    if node.op_type == "Concat" and not interleaved and len(node.inputs) == 2:
        same = node.inputs[0] is node.inputs[1] and node.attributes.get_int("axis", 0) in (-1, (rank(value) or 0) - 1)
        return node.inputs[0] if same else None
    return _before_unsqueeze(op, node, interleaved=interleaved) or (_repeated(op, node) if interleaved else None)


def _before_unsqueeze(op: Builder, node: ir.Node, *, interleaved: bool) -> ir.Value | None:
    axes = constant(node.inputs[1]) if node.op_type == "Unsqueeze" and len(node.inputs) > 1 else None
    length = rank(node.outputs[0])
    if axes is None or length is None or node.inputs[0] is None or {-1, length - 1} & set(axes.reshape(-1).tolist()):
        return None
    inner = halved(op, node.inputs[0], interleaved=interleaved)
    positive = [int(axis) % length for axis in axes.reshape(-1)]
    return None if inner is None else op.Unsqueeze(inner, positive)


def _repeated(op: Builder, node: ir.Node) -> ir.Value | None:
    """Match ``Reshape(Expand(Unsqueeze(x, [..., -1]), [..., 2]))``, which repeats each element."""
    expand = made_by(node.inputs[0], "Expand", "Tile") if node.op_type == "Reshape" else None
    insert = None if expand is None else made_by(expand.inputs[0], "Unsqueeze")
    axes = None if insert is None else constant(insert.inputs[1])
    if expand is None or insert is None or axes is None or insert.inputs[0] is None:
        return None
    wide, narrow, after = dims(expand.outputs[0]), dims(insert.outputs[0]), dims(node.outputs[0])
    if (
        wide is None
        or narrow is None
        or after is None
        or wide[-1] != 2
        or narrow[-1] != 1
        or len(after) + 1 != len(wide)
    ):
        return None
    if not isinstance(wide[-2], int) or after[-1] != 2 * wide[-2] or narrow[-2] != wide[-2] or narrow[:-1] != wide[:-1]:
        return None
    if list(after[:-1]) != list(wide[:-2]):
        return None
    kept = sorted({int(axis) % len(narrow) for axis in axes.reshape(-1)} - {len(narrow) - 1})
    if len(kept) + 1 != axes.size:
        return None
    return op.Unsqueeze(insert.inputs[0], kept) if kept else insert.inputs[0]
