"""Fuse multi-head attention into MultiHeadAttention of ONNX Runtime."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.ops.definition import CONTRIBUTED_DOMAIN
from onnx_passes.passes.attention.form import AttentionForm
from onnx_passes.passes.onnxruntime.attentions import attention_bias, flat_inputs, fuse_attentions, replace_results
from onnx_passes.rewrite.editor import Editor, Rewrite
from onnx_passes.rewrite.passes import EditorPass
from onnx_passes.rewrite.refusal import Refusal, no


@passes.verify.tolerance
@passes.register("fuse-onnxruntime")
class FuseMultiHeadAttention(EditorPass):
    """Fuse attention into MultiHeadAttention of ONNX Runtime.

    Rewrites: ``MatMul(Softmax(MatMul(q, Transpose(k)) * scale + mask), v)``, with heads split before and merged after
              it → ``com.microsoft.MultiHeadAttention(q, k, v, …, mask)``; with cached keys and values. If the graph
              does not split or merge heads right there, as after a rotation, the reshapes are added.
    Refuses:  the cases that ``fuse-attention`` refuses, except that the opset must be 13 or above; groups of queries
              (see ``fuse-group-query-attention``); a soft cap; other types than single precision; a guard for fully
              masked queries; heads of unknown number or size.
    Exactness: rounding; scores that a mask makes infinite may become finite.
    """

    needs = ("shape-inference",)
    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Fuse the attentions of the graph and its subgraphs."""
        fuse_attentions(editor, "MultiHeadAttention", _write)


def _write(r: Rewrite, form: AttentionForm) -> Refusal | None:
    if form.heads is None or form.heads != form.kv_heads:
        return no("queries share keys, or the number of heads is not known", at=form.root)
    if form.softcap:
        return no("MultiHeadAttention has no soft cap", at=form.root)
    inputs = [*flat_inputs(r.op, form), None, None, attention_bias(r.op, form)]
    if form.past is not None:
        inputs += [form.past.key, form.past.value]
    while inputs[-1] is None:
        inputs.pop()
    made = r.op.op(
        "MultiHeadAttention",
        *inputs,
        _domain=CONTRIBUTED_DOMAIN,
        _outputs=1 if form.past is None else 3,
        num_heads=form.heads,
        scale=form.given_scale,
    )
    replace_results(r, form, made)
    return None
