"""Description of an attention, independent of its original and its target operators."""

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
    """Cached keys and values of earlier runs, and the graph values with the cached and new ones concatenated."""

    key: ir.Value
    value: ir.Value
    present_key: ir.Value
    present_value: ir.Value


@dataclass(frozen=True)
class AttentionForm:
    """``softmax(softcap(q @ kᵀ * scale) + masks) @ v``, with ``q``, ``k`` and ``v`` as tensors of heads.

    Keys and values are those before heads are repeated and the cache is prepended. ``output`` is the result:
    tensors of heads, or ``[batch, sequence, heads * size]`` if ``merge`` concatenates the heads. ``guarded``: a row
    whose keys are all masked gives zeros, not NaN. ``nodes`` compute only the attention, the last node first.
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
        """Return the nodes that compute only the attention, including head reshapes, the last node at the end."""
        own: dict[ir.Node, None] = dict.fromkeys(self.nodes)
        presents = () if self.past is None else (self.past.present_key, self.past.present_value)
        for node in (*self.q.nodes, *self.k.nodes, *self.v.nodes):
            result = node.outputs[0]
            if result in presents or is_only_read_by(result, own):
                own[node] = None
        return list(own)[::-1]

    @property
    def given_scale(self) -> float | None:
        """Return the scale; None if it is the default of the operators."""
        usual = self.size is not None and math.isclose(self.scale, self.size**-0.5, rel_tol=1e-6)
        return None if usual else self.scale

    @property
    def mask_rank(self) -> int:
        """Return the highest rank of the masks."""
        return max(rank(mask.value) or 0 for mask in self.masks)

    @property
    def heads(self) -> int | None:
        """Return the number of query heads; None if unknown."""
        return _known(self.q.sizes[1])

    @property
    def kv_heads(self) -> int | None:
        """Return the number of key and value heads; None if unknown."""
        return _known(self.k.sizes[1])

    @property
    def size(self) -> int | None:
        """Return the size of a query or key head; None if unknown."""
        return _known(self.q.sizes[3])

    @property
    def flat(self) -> tuple[ir.Value, ir.Value, ir.Value] | None:
        """Return ``[batch, sequence, heads * size]`` of queries, keys and values; None unless the graph has all."""
        q, k, v = self.q.flat, self.k.flat, self.v.flat
        return None if q is None or k is None or v is None else (q, k, v)

    def condition(self, op: Builder) -> ir.Value | None:
        """Build the boolean mask, true for visible keys; None unless all masks only hide keys."""
        if not self.masks or not all(mask.is_boolean(self.dtype) for mask in self.masks):
            return None
        first, *others = (mask.condition(op) for mask in self.masks)
        for other in others:
            first = op.And(first, other)
        return first

    def bias(self, op: Builder) -> ir.Value | None:
        """Build the mask as a term of the scores."""
        total: ir.Value | None = None
        for mask in self.masks:
            term = mask.bias(op, self.dtype, keeps_infinity=self.guarded)
            total = term if total is None else op.Add(total, term)
        return total


def _known(dim: Dim) -> int | None:
    return dim if isinstance(dim, int) else None
