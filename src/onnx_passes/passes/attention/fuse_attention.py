"""Fuse attention into the operator Attention."""

from __future__ import annotations

from functools import partial
from typing import Any

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.options import option
from onnx_passes.core.walk import all_nodes
from onnx_passes.graph.builder import Builder
from onnx_passes.passes.attention.form import AttentionForm
from onnx_passes.passes.attention.needless_masks import drop_masks
from onnx_passes.passes.attention.recognise import recognise, reread
from onnx_passes.passes.attention.triangles import Triangles
from onnx_passes.passes.attention.writing import FLAT, full_mask, fuse_each, replace_presents
from onnx_passes.rewrite.editor import Editor, Rewrite
from onnx_passes.rewrite.passes import EditorPass
from onnx_passes.rewrite.refusal import Refusal, no

_SINCE = 23


@passes.verify.tolerance
@passes.register("attention")
class FuseAttention(EditorPass):
    """Fuse scaled dot-product attention into the operator Attention.

    Rewrites: ``MatMul(Softmax(MatMul(q, Transpose(k)) * scale + mask), v)`` → ``Attention(q, k, v, mask)``; including
              reshapes that split and merge heads, keys and values that are repeated for groups of queries or appended
              to a cache, a soft cap, masks that are added or selected by Where, and casts around the softmax. A mask
              that hides exactly the keys after each query, counted from the end of the cache, becomes ``is_causal=1``;
              one that hides nothing is dropped. An existing Attention absorbs the head reshapes and such masks, too.
    Refuses:  opsets below 23; a softmax over another axis; a scale that is not one positive number; a mask that
              enlarges the scores, is of another type, or may hide all keys of a query by minus infinity, which gives
              NaN where Attention gives zeros; batches or heads that do not match; other types than single and half
              precision; an intermediate value with other consumers; soft caps, with ``soft-cap=false``: on a CPU the
              kernel of ONNX Runtime is several times slower with a soft cap than separate operators, which a note
              reports.
    Exactness: rounding; scores that a mask makes infinite may become finite.
    """

    needs = ("shape-inference",)
    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")

    soft_cap: bool = option(True, "fuse attention with a soft cap, too, which is slower in ONNX Runtime on a CPU")

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Fuse the attentions of the graph and its subgraphs."""
        triangles = Triangles(editor.graph)
        before = _soft_capped(editor.graph)
        write = partial(_write, soft_cap=self.soft_cap)
        fuse_each(editor, "Attention", "MatMul", lambda node: recognise(node, triangles), write)
        fuse_each(editor, "heads of Attention", "Attention", lambda node: reread(node, triangles), _widen)
        drop_masks(editor, "", triangles)
        if (count := _soft_capped(editor.graph) - before) > 0:
            editor.context.note(f"{count} with a soft cap, slow in ONNX Runtime on a CPU: soft-cap=false leaves them")


def _soft_capped(graph: ir.Graph | ir.Function) -> int:
    """Count the Attention nodes with a soft cap."""
    nodes = (node for node in all_nodes(graph) if not node.domain and node.op_type == "Attention")
    return sum(node.attributes.get_float("softcap", 0.0) != 0 for node in nodes)


def _write(r: Rewrite, form: AttentionForm, *, soft_cap: bool) -> Refusal | None:
    if r.op.opset < _SINCE:
        return no(f"Attention needs opset {_SINCE}: run modernize or convert-opset", at=form.root)
    if form.softcap and not soft_cap:
        return no("soft-cap=false keeps soft caps", at=form.root)
    attributes: dict[str, Any] = {"scale": form.given_scale, "softcap": form.softcap or None}
    if form.softmax_in is not None and form.softmax_in != form.dtype:
        attributes["softmax_precision"] = form.softmax_in.value
    _replace(r, form, [*_inputs(r.op, form), full_mask(r.op, form)], attributes)
    return None


def _inputs(op: Builder, form: AttentionForm) -> tuple[ir.Value, ir.Value, ir.Value]:
    flat = form.flat if form.merge is not None else None
    return flat or (form.q.build(op), form.k.build(op), form.v.build(op))


def _replace(r: Rewrite, form: AttentionForm, inputs: list[ir.Value | None], attributes: dict[str, Any]) -> None:
    """Build the Attention that replaces the recognised nodes."""
    if form.merge is not None or len(form.q.perm) == FLAT:
        attributes = {**attributes, "q_num_heads": form.heads, "kv_num_heads": form.kv_heads}
    if form.past is None:
        r.replace(form.output, r.op.Attention(*inputs, **attributes))
        return
    result, *presents = r.op.Attention(*inputs, form.past.key, form.past.value, _outputs=3, **attributes)
    r.replace(form.output, result)
    replace_presents(r, form, presents)


def _widen(r: Rewrite, form: AttentionForm) -> None:
    """Fuse splitting, repeating and caching of heads into an existing Attention."""
    *_, node = form.nodes
    mask = node.inputs[3] if len(node.inputs) > 3 else None
    _replace(r, form, [*_inputs(r.op, form), mask], dict(node.attributes))
