"""Fuse grouped-query attention into GroupQueryAttention of ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.shapes import same_dim
from onnx_passes.ops.definition import CONTRIBUTED_DOMAIN
from onnx_passes.passes.attention.form import AttentionForm
from onnx_passes.passes.attention.writing import length_of, size_along
from onnx_passes.passes.onnxruntime.attentions import attention_bias, flat_inputs, fuse_attentions, replace_results
from onnx_passes.rewrite.editor import Editor, Rewrite
from onnx_passes.rewrite.passes import EditorPass
from onnx_passes.rewrite.refusal import Refusal, no

_MULTIPLE = 8
"""Required divisor of the head size."""


@passes.verify.tolerance
@passes.register("fuse-onnxruntime")
class FuseGroupQueryAttention(EditorPass):
    """Fuse attention whose queries share keys and values into GroupQueryAttention of ONNX Runtime.

    The mask is kept, and the operator's own causal mask is disabled, which requires ONNX Runtime 1.31. Rotations stay
    outside, so that those of parts of heads, or of interleaved pairs, are not confused.

    Rewrites: ``MatMul(Softmax(MatMul(q, Transpose(repeated(k))) * scale + mask), repeated(v))``, with heads split
              before and merged after it → ``com.microsoft.GroupQueryAttention(q, k, v, …, mask)``; with cached keys and
              values. If the graph does not split or merge heads right there, as after a rotation, the reshapes are
              added.
    Refuses:  the cases that ``fuse-attention`` refuses, except that the opset must be 13 or above; as many keys as
              queries (see ``fuse-multi-head-attention``); heads whose size is not a multiple of 8; keys of another
              sequence than the queries; several new queries after a cache, in more than one sequence; other types than
              single precision; a guard for fully masked queries; heads of unknown number or size.
    Exactness: rounding; scores that a mask makes infinite may become finite.
    """

    needs = ("shape-inference",)
    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Fuse the attentions of the graph and its subgraphs."""
        fuse_attentions(editor, "GroupQueryAttention", _write)


def _write(r: Rewrite, form: AttentionForm) -> Refusal | None:
    refusal = _refusal(form)
    if refusal is not None:
        return refusal
    q, k, v = flat_inputs(r.op, form)
    bias = attention_bias(r.op, form)
    past = (None, None) if form.past is None else (form.past.key, form.past.value)
    made = r.op.op(
        "GroupQueryAttention",
        *(q, k, v, *past, *_lengths(r.op, form, q)),
        *(() if bias is None else (None, None, None, bias)),
        _domain=CONTRIBUTED_DOMAIN,
        _outputs=3,
        num_heads=form.heads,
        kv_num_heads=form.kv_heads,
        scale=form.given_scale,
        softcap=form.softcap or None,
        causal=0,
    )
    replace_results(r, form, made)
    return None


def _refusal(form: AttentionForm) -> Refusal | None:
    if form.heads is None or form.kv_heads is None or form.heads == form.kv_heads:
        return no("queries do not share keys, or the number of heads is not known", at=form.root)
    if form.size is None or form.size % _MULTIPLE or form.v.sizes[3] != form.size:
        return no(
            f"the size of a head is not a multiple of {_MULTIPLE}, or not the same for keys and values", at=form.root
        )
    if not same_dim(form.q.sizes[2], form.k.sizes[2]):
        return no("keys are not of the same sequence as queries", at=form.root)
    if form.past is not None and 1 not in (form.q.sizes[0], form.q.sizes[2]):
        return no("there are several queries after a cache, and maybe several sequences", at=form.root)
    return None


def _lengths(op: Builder, form: AttentionForm, q: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Build the index of the last key of each sequence, and the total number of keys."""
    batch, total = form.q.sizes[0], form.scores[-1]
    if isinstance(total, int):
        # ONNX Runtime propagates a known size through Shape and Cast with the type before the Cast.
        count = op.initializer(np.array([total], np.int32), "keys")
        last = op.initializer(np.array([total - 1], np.int32), "last")
    else:
        count = length_of(op, form.k)
        if form.past is not None:
            count = op.Add(size_along(op, form.past.key, 2), count)
        count = op.Cast(count, to=ir.DataType.INT32.value)
        last = op.Sub(count, op.initializer(np.array([1], np.int32), "one"))
    lasts = op.Expand(last, [batch] if isinstance(batch, int) else size_along(op, q, 0))
    return lasts, op.Squeeze(count, [0])
