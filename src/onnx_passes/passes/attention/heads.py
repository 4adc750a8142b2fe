"""Tensors of heads, ``[batch, heads, sequence, size]``: splitting, transposing, repeating and caching of heads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import onnx_ir as ir

from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant, number
from onnx_passes.graph.permutations import permutation, permuted, transposed
from onnx_passes.graph.shapes import Dim, dims, rank, same_dim
from onnx_passes.graph.uses import is_standard, is_used_elsewhere, made_by

HEADS_FIRST = (0, 1, 2, 3)
SEQUENCE_FIRST = (0, 2, 1, 3)
"""The axes of ``[batch, sequence, heads, size]``, in the order batch, heads, sequence, size."""


@dataclass(frozen=True)
class Heads:
    """A tensor of heads: ``value`` with its axes in the order ``perm``, times ``scale``.

    Without an axis of heads, ``value`` of rank three is one head. ``nodes`` are the nodes between ``value`` and the
    product, the last node first.
    """

    value: ir.Value
    perm: tuple[int, ...]
    scale: float = 1.0
    nodes: tuple[ir.Node, ...] = ()

    @property
    def sizes(self) -> tuple[Dim, ...]:
        """Return batch, number of heads, sequence length and head size."""
        batch, *heads, sequence, size = permuted(dims(self.value) or (), list(self.perm))
        return batch, *(heads or [1]), sequence, size

    @property
    def flat(self) -> ir.Value | None:
        """Return ``[batch, sequence, heads * size]``; None if the graph has no such value."""
        split = self.split
        return None if split is None else split.inputs[0]

    @property
    def split(self) -> ir.Node | None:
        """Return the Reshape that splits ``flat`` into heads; None if there is none."""
        node = made_by(self.value, "Reshape")
        if self.perm != SEQUENCE_FIRST or node is None:
            return None
        whole, parts = dims(node.inputs[0]), dims(self.value)
        if whole is None or parts is None or len(whole) != len(HEADS_FIRST) - 1 or not _same(whole[:2], parts[:2]):
            return None
        return node if isinstance(parts[2], int) else None

    def build(self, op: Builder) -> ir.Value:
        """Build the tensor with its axes in order, without the scale."""
        return transposed(op, self.value, list(self.perm))


def read_query(value: ir.Value) -> Heads:
    """Return the heads of the left operand of the product."""
    return _walk(Heads(value, tuple(range(rank(value) or 0))), _unscaled, _untransposed)


def read_key(value: ir.Value) -> Heads:
    """Return the heads of the right operand of the product, which is transposed."""
    *order, sequence, size = range(rank(value) or 0)
    return _walk(Heads(value, (*order, size, sequence)), _unscaled, _untransposed, _unsquashed)


def read_value(value: ir.Value) -> Heads:
    """Return the heads of the values."""
    return _walk(Heads(value, tuple(range(rank(value) or 0))), _untransposed)


def unrepeated(heads: Heads) -> tuple[Heads, int]:
    """Return the heads before their repetition for groups of queries, and the number of repetitions."""
    join = made_by(heads.value, "Reshape")
    expand = None if join is None else made_by(join.inputs[0], "Expand")
    insert = None if expand is None else made_by(expand.inputs[0], "Unsqueeze", "Reshape")
    if join is None or expand is None or insert is None:
        return heads, 1
    source, inserted, wide = insert.inputs[0], dims(expand.inputs[0]), dims(expand.outputs[0])
    before, after = dims(source), dims(heads.value)
    if source is None or before is None or inserted is None or wide is None or after is None:
        return heads, 1
    if heads.perm != HEADS_FIRST or len(before) != len(HEADS_FIRST) or len(inserted) != len(wide) != len(before):
        return heads, 1
    # Reshape keeps the number of elements, so that only the inserted axis can have been expanded.
    if not _same(inserted, [*before[:2], 1, *before[2:]]) or not _same(
        [before[0], *before[2:]], [after[0], *after[2:]]
    ):
        return heads, 1
    times = wide[2]
    if not isinstance(times, int) or not isinstance(before[1], int) or after[1] != before[1] * times:
        return heads, 1
    nodes = (*heads.nodes, join, expand, insert)
    return _walk(replace(heads, value=source, nodes=nodes), _unscaled, _untransposed), times


def uncached(heads: Heads) -> tuple[Heads, ir.Value] | None:
    """Return the new heads and the cached ones before them; None if nothing is cached."""
    node = made_by(heads.value, "Concat")
    if heads.perm != HEADS_FIRST or node is None or len(node.inputs) != 2:
        return None
    past, new = node.inputs
    axis = node.attributes.get_int("axis", 0)
    if past is None or new is None or rank(new) != len(HEADS_FIRST) or axis not in (2, -2):
        return None
    return _walk(replace(heads, value=new, nodes=(*heads.nodes, node)), _untransposed), past


def scaled_by(node: ir.Node | None) -> tuple[ir.Value, float] | None:
    """Return the operand and the factor of a multiplication or division by a constant; None otherwise."""
    if not is_standard(node, "Mul", "Div"):
        return None
    a, b = node.inputs
    for x, c in ((a, b), (b, a))[: 1 if node.op_type == "Div" else 2]:
        factor = number(c, x)
        if x is not None and factor is not None and factor != 0:
            return x, factor if node.op_type == "Mul" else 1 / factor
    return None


def merged(value: ir.Value, batch: Dim, sequence: Dim) -> tuple[ir.Node, ir.Node] | None:
    """Return the Transpose and the Reshape that merge heads; None if intermediate values have other consumers."""
    turn = _only_user(value)
    join = _only_user(turn.outputs[0]) if permutation(turn) == list(SEQUENCE_FIRST) and turn is not None else None
    if turn is None or not is_standard(join, "Reshape") or join.inputs[0] is not turn.outputs[0]:
        return None
    whole, target = dims(join.outputs[0]), constant(join.inputs[1])
    if whole is None or len(whole) != len(HEADS_FIRST) - 1:
        return None
    copies = target is not None and not target[:2].any() and not join.attributes.get_int("allowzero", 0)
    return (turn, join) if copies or _same(whole[:2], [batch, sequence]) else None


def _walk(heads: Heads, *steps: Callable[[Heads], Heads | None]) -> Heads:
    while True:
        for step in steps:
            found = step(heads)
            if found is not None:
                heads = found
                break
        else:
            return heads


def _unscaled(heads: Heads) -> Heads | None:
    node = heads.value.producer()
    found = scaled_by(node)
    if found is None or node is None or rank(found[0]) != len(heads.perm):
        return None
    x, factor = found
    return replace(heads, value=x, scale=heads.scale * factor, nodes=(*heads.nodes, node))


def _untransposed(heads: Heads) -> Heads | None:
    node = heads.value.producer()
    perm = permutation(node)
    if node is None or perm is None or node.inputs[0] is None:
        return None
    return replace(
        heads, value=node.inputs[0], perm=tuple(perm[axis] for axis in heads.perm), nodes=(*heads.nodes, node)
    )


def _unsquashed(heads: Heads) -> Heads | None:
    """Match a transposition of the last two axes, computed on matrices ``[-1, sequence, size]``."""
    last = made_by(heads.value, "Reshape")
    turn = None if last is None else made_by(last.inputs[0], "Transpose")
    first = None if turn is None or permutation(turn) != [0, 2, 1] else made_by(turn.inputs[0], "Reshape")
    if last is None or turn is None or first is None or first.inputs[0] is None:
        return None
    source, rows = first.inputs[0], dims(first.outputs[0])
    before, after = dims(source), dims(heads.value)
    if before is None or after is None or rows is None or len(before) < len(rows):
        return None
    if not _same(before, [*after[:-2], after[-1], after[-2]]) or not _same(before[-2:], rows[1:]):
        return None
    order = list(range(len(before)))
    order[-2:] = order[:-3:-1]
    return replace(
        heads,
        value=source,
        perm=tuple(order[axis] for axis in heads.perm),
        nodes=(*heads.nodes, last, turn, first),
    )


def _same(a: tuple[Dim, ...] | list[Dim], b: tuple[Dim, ...] | list[Dim]) -> bool:
    return len(a) == len(b) and all(same_dim(p, q) for p, q in zip(a, b, strict=True))


def _only_user(value: ir.Value) -> ir.Node | None:
    return None if is_used_elsewhere(value) else next((use.node for use in value.uses()), None)
