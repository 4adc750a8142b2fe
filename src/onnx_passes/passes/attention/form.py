"""One description of an attention, whatever it was written as and whichever operator it becomes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.graph.builder import Builder
from onnx_passes.graph.shapes import Dim, rank
from onnx_passes.graph.uses import is_only_read_by
from onnx_passes.passes.attention.heads import Heads
from onnx_passes.passes.attention.masks import Mask


@dataclass(frozen=True)
class Past:
    """Keys and values of earlier runs, and the values of the graph that hold these and the new ones."""

    key: ir.Value
    value: ir.Value
    present_key: ir.Value
    present_value: ir.Value


@dataclass(frozen=True)
class AttentionForm:
    """``softmax(softcap(q @ kᵀ * scale) + masks) @ v``, with ``q``, ``k`` and ``v`` as tensors of heads.

    Keys and values are those before heads were repeated and the past was put in front of them. ``output`` is what the
    attention computes: tensors of heads, or ``[batch, sequence, heads * size]`` where ``merge`` puts these beside each
    other. ``guarded`` says that a row of keys that are all left out gives zeros, not NaN. ``nodes`` compute nothing
    else, the last first.
    """

    output: ir.Value
    q: Heads
    k: Heads
    v: Heads
    scale: float
    scores: tuple[Dim, ...]
    dtype: ir.DataType
    nodes: tuple[ir.Node, ...]
    softcap: float = 0.0
    masks: tuple[Mask, ...] = ()
    guarded: bool = False
    softmax_in: ir.DataType | None = None
    past: Past | None = None
    merge: tuple[ir.Node, ir.Node] | None = None

    @property
    def root(self) -> ir.Node:
        """Return the last node."""
        return self.nodes[0]

    @property
    def own_nodes(self) -> list[ir.Node]:
        """List the nodes that compute nothing but the attention, those around heads included, the last at the end."""
        own: dict[ir.Node, None] = dict.fromkeys(self.nodes)
        presents = () if self.past is None else (self.past.present_key, self.past.present_value)
        for node in (*self.q.nodes, *self.k.nodes, *self.v.nodes):
            result = node.outputs[0]
            if result in presents or is_only_read_by(result, own):
                own[node] = None
        return list(own)[::-1]

    @property
    def given_scale(self) -> float | None:
        """Return the scale, unless it is the one that operators take by themselves."""
        usual = self.size is not None and math.isclose(self.scale, self.size**-0.5, rel_tol=1e-6)
        return None if usual else self.scale

    @property
    def mask_rank(self) -> int:
        """Return the rank of all masks together."""
        return max(rank(mask.value) or 0 for mask in self.masks)

    @property
    def heads(self) -> int | None:
        """Return how many heads queries have, if that is known."""
        return _known(self.q.sizes[1])

    @property
    def kv_heads(self) -> int | None:
        """Return how many heads keys and values have, if that is known."""
        return _known(self.k.sizes[1])

    @property
    def size(self) -> int | None:
        """Return the size of the heads of queries and keys, if that is known."""
        return _known(self.q.sizes[3])

    @property
    def flat(self) -> tuple[ir.Value, ir.Value, ir.Value] | None:
        """Return queries, keys and values as ``[batch, sequence, heads * size]``, if the graph has all of them."""
        q, k, v = self.q.flat, self.k.flat, self.v.flat
        return None if q is None or k is None or v is None else (q, k, v)

    def condition(self, op: Builder) -> ir.Value | None:
        """Build the mask as what is true for the keys that count, if it leaves keys out and does nothing else."""
        if not self.masks or not all(mask.is_boolean(self.dtype) for mask in self.masks):
            return None
        first, *others = (mask.condition(op) for mask in self.masks)
        for other in others:
            first = op.And(first, other)
        return first

    def bias(self, op: Builder) -> ir.Value | None:
        """Build the mask as what is added to the scores."""
        total: ir.Value | None = None
        for mask in self.masks:
            term = mask.bias(op, self.dtype, keeps_infinity=self.guarded)
            total = term if total is None else op.Add(total, term)
        return total


def _known(dim: Dim) -> int | None:
    return dim if isinstance(dim, int) else None
