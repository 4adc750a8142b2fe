"""Put the operator Attention in the place of what computes one."""

from __future__ import annotations

import math
from typing import Any

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.walk import all_nodes
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.shapes import Dim, rank
from onnx_passes.graph.uses import is_only_read_by
from onnx_passes.passes.attention.form import AttentionForm
from onnx_passes.passes.attention.heads import is_standard
from onnx_passes.passes.attention.masks import covers
from onnx_passes.passes.attention.recognise import recognise, reread
from onnx_passes.rewrite.editor import Editor, Rewrite
from onnx_passes.rewrite.passes import EditorPass
from onnx_passes.rewrite.refusal import Refusal

_SINCE = 23
_HEADS = "heads of Attention"
_FLAT = 3
"""The rank of tensors without an axis of heads."""


@passes.verify.tolerance
@passes.register("attention")
class FuseAttention(EditorPass):
    """Fuse scaled dot-product attention into the operator Attention.

    Rewrites: ``MatMul(Softmax(MatMul(q, Transpose(k)) * scale + mask), v)`` → ``Attention(q, k, v, mask)``; with heads
              that are split before and merged behind it, keys and values that are repeated for groups of queries or
              follow those of the past, a soft cap, masks that are added or chosen, and casts around the softmax. An
              Attention that is there takes in the heads around it as well.
    Refuses:  opsets below 23; a softmax over another axis; a scale that is not one positive number; a mask that
              enlarges the scores, is of another type, or may leave out all keys of a query by minus infinity, which
              gives NaN where Attention gives zeros; batches or heads that do not fit; other types than single and half
              precision; a value inside that is used elsewhere.
    Exactness: rounding; scores that a mask makes infinite may become finite.
    """

    needs = ("shape-inference",)
    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Look at the products of the graph and its subgraphs."""
        for node in [node for node in all_nodes(editor.graph) if node.op_type == "MatMul"]:
            form = recognise(node)
            if form is None:
                continue
            if isinstance(form, Refusal):
                editor.refuse("Attention", form.reason, node, at=form.at)
                continue
            with editor.rewrite("Attention", form.root, matched=own_nodes(form)) as r:
                if r.op.opset < _SINCE:
                    r.refuse(f"Attention needs opset {_SINCE}: run modernize or convert-opset", at=node)
                else:
                    _write(r, form)
        for node in [node for node in all_nodes(editor.graph) if is_standard(node, "Attention")]:
            _widen(editor, node)


def own_nodes(form: AttentionForm) -> list[ir.Node]:
    """List the nodes that compute nothing but the attention, in the order of the graph."""
    own: dict[ir.Node, None] = dict.fromkeys(form.nodes)
    presents = () if form.past is None else (form.past.present_key, form.past.present_value)
    for node in (*form.q.nodes, *form.k.nodes, *form.v.nodes):
        result = node.outputs[0]
        if result in presents or is_only_read_by(result, own):
            own[node] = None
    return list(own)[::-1]


def _write(r: Rewrite, form: AttentionForm) -> None:
    attributes: dict[str, Any] = {}
    if form.size is None or not math.isclose(form.scale, form.size**-0.5, rel_tol=1e-6):
        attributes["scale"] = form.scale
    if form.softcap:
        attributes["softcap"] = form.softcap
    if form.causal:
        attributes["is_causal"] = 1
    if form.softmax_in is not None and form.softmax_in != form.dtype:
        attributes["softmax_precision"] = form.softmax_in.value
    q, k, v = _inputs(r.op, form)
    _put(r, form, [q, k, v, full_mask(r.op, form, q, k)], attributes)


def _inputs(op: Builder, form: AttentionForm) -> tuple[ir.Value, ir.Value, ir.Value]:
    flat = form.flat if form.merge is not None else None
    return flat or (form.q.build(op), form.k.build(op), form.v.build(op))


def _put(r: Rewrite, form: AttentionForm, inputs: list[ir.Value | None], attributes: dict[str, Any]) -> None:
    """Build the operator in the place of all that is described."""
    if form.merge is not None or len(form.q.perm) == _FLAT:
        attributes = {**attributes, "q_num_heads": form.heads, "kv_num_heads": form.kv_heads}
    past = form.past
    if past is None:
        r.replace(form.output, r.op.Attention(*inputs, **attributes))
        return
    made = r.op.Attention(*inputs, past.key, past.value, _outputs=3, **attributes)
    r.replace(form.output, made[0])
    for old, new in ((past.present_key, made[1]), (past.present_value, made[2])):
        if old.is_graph_output():
            r.replace(old, new)


def _widen(editor: Editor, node: ir.Node) -> None:
    """Let an Attention that is there split, repeat and cache heads by itself."""
    form = reread(node)
    if form is None:
        return
    if isinstance(form, Refusal):
        editor.refuse(_HEADS, form.reason, node, at=form.at)
        return
    with editor.rewrite(_HEADS, form.root, matched=own_nodes(form)) as r:
        mask = node.inputs[3] if len(node.inputs) > 3 else None
        _put(r, form, [*_inputs(r.op, form), mask], dict(node.attributes))


def full_mask(op: Builder, form: AttentionForm, q: ir.Value, k: ir.Value, *, added: bool = False) -> ir.Value | None:
    """Build the mask, if asked for as what is added; ONNX Runtime wants as many rows and columns as the scores have."""
    mask = (None if added else form.condition(op)) or form.bias(op)
    if mask is None:
        return None
    rows, columns = (covers(form.masks, form.scores, axis) for axis in (-2, -1))
    if not rows or not columns:
        queries = _count(op, form.scores[-2], q)
        keys = [1] if columns else _count(op, form.scores[-1], k, None if form.past is None else form.past.key)
        is_known = isinstance(queries, list) and isinstance(keys, list)
        mask = op.Expand(mask, [*queries, *keys] if is_known else op.Concat(queries, keys, axis=0))
    # A mask of rank three is one for each head: without heads, it is one for each of the batch.
    return op.Unsqueeze(mask, [1]) if mask_rank(form) == _FLAT == len(form.q.perm) else mask


def mask_rank(form: AttentionForm) -> int:
    """Return the rank of the mask."""
    return max(rank(term.value) or 0 for term in form.masks)


def _count(op: Builder, size: Dim, value: ir.Value, past: ir.Value | None = None) -> Any:
    """Build how many queries or keys there are."""
    if isinstance(size, int):
        return [size]
    axis = 1 if rank(value) == _FLAT else 2
    count = op.Shape(value, start=axis, end=axis + 1)
    return count if past is None else op.Add(op.Shape(past, start=2, end=3), count)
