"""Shared parts of attention passes: fuse matches node by node; build masks, lengths and caches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import onnx_ir as ir

from onnx_passes.core.walk import all_nodes
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.shapes import Dim
from onnx_passes.graph.uses import is_standard
from onnx_passes.passes.attention.form import AttentionForm, Past
from onnx_passes.passes.attention.heads import Heads
from onnx_passes.passes.attention.masks import covers
from onnx_passes.rewrite.editor import Editor, Rewrite
from onnx_passes.rewrite.refusal import Refusal

_SHAPES_OF_PARTS = 15
"""The first opset in which Shape can select axes."""
FLAT = 3
"""The rank of tensors without an axis of heads."""


class AttentionMatch(Protocol):
    """A match with the nodes that compute only its result, the last one at the end."""

    @property
    def own_nodes(self) -> Sequence[ir.Node]:
        """Return these nodes."""
        ...


Form = TypeVar("Form", bound=AttentionMatch)


def fuse_each(
    editor: Editor,
    rule: str,
    operator: str,
    read: Callable[[ir.Node], Form | Refusal | None],
    write: Callable[[Rewrite, Form], Refusal | None],
) -> None:
    """Match every node of a standard operator with ``read``, and replace the matches with ``write``."""
    for node in [node for node in all_nodes(editor.graph) if is_standard(node, operator)]:
        form = read(node)
        if form is None:
            continue
        if isinstance(form, Refusal):
            editor.refuse(rule, form.reason, node, at=form.at)
            continue
        nodes = form.own_nodes
        with editor.rewrite(rule, nodes[-1], matched=nodes) as r:
            refusal = write(r, form)
            if refusal is not None:
                r.refuse(refusal.reason, refusal.at)


def full_mask(op: Builder, form: AttentionForm, *, added: bool = False) -> ir.Value | None:
    """Build the mask, additive if ``added``, with as many rows and columns as the scores, as ONNX Runtime requires."""
    mask = (None if added else form.condition(op)) or form.bias(op)
    if mask is None:
        return None
    rows, columns = (covers(form.masks, form.scores, axis) for axis in (-2, -1))
    if not rows or not columns:
        queries = _count(op, form.scores[-2], form.q)
        keys = [1] if columns else _count(op, form.scores[-1], form.k, form.past)
        is_known = isinstance(queries, list) and isinstance(keys, list)
        mask = op.Expand(mask, [*queries, *keys] if is_known else op.Concat(queries, keys, axis=0))
    # A mask of rank three has one matrix per head or, without heads, one per batch element.
    return op.Unsqueeze(mask, [1]) if form.mask_rank == FLAT == len(form.q.perm) else mask


def replace_presents(r: Rewrite, form: AttentionForm, presents: Sequence[ir.Value]) -> None:
    """Replace the outputs that hold the cache for the next run."""
    olds = () if form.past is None else (form.past.present_key, form.past.present_value)
    for old, new in zip(olds, presents, strict=False):
        if old.is_graph_output():
            r.replace(old, new)


def _count(op: Builder, size: Dim, heads: Heads, past: Past | None = None) -> Any:
    """Build the number of queries or keys."""
    if isinstance(size, int):
        return [size]
    count = length_of(op, heads)
    return count if past is None else op.Add(size_along(op, past.key, 2), count)


def length_of(op: Builder, heads: Heads) -> ir.Value:
    """Build the sequence length of a tensor of heads."""
    if heads.flat is not None:
        return size_along(op, heads.flat, 1)
    return size_along(op, heads.value, heads.perm[-2])


def size_along(op: Builder, value: ir.Value, axis: int) -> ir.Value:
    """Build the size of an axis, as a vector of one element."""
    if op.opset < _SHAPES_OF_PARTS:
        return op.Gather(op.Shape(value), op.initializer(np.array([axis]), "axis"))
    return op.Shape(value, start=axis, end=axis + 1)
