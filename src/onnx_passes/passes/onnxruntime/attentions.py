"""Shared parts of fusions into ONNX Runtime's attentions: requirements, masks and caches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import onnx_ir as ir

from onnx_passes.graph.builder import Builder
from onnx_passes.graph.permutations import transposed
from onnx_passes.ops.definition import CONTRIBUTED_DOMAIN
from onnx_passes.passes.attention.form import AttentionForm
from onnx_passes.passes.attention.heads import SEQUENCE_FIRST, Heads
from onnx_passes.passes.attention.needless_masks import drop_masks
from onnx_passes.passes.attention.recognise import recognise
from onnx_passes.passes.attention.triangles import Triangles
from onnx_passes.passes.attention.writing import full_mask, fuse_each, replace_presents
from onnx_passes.rewrite.editor import Editor, Rewrite
from onnx_passes.rewrite.refusal import Refusal, no

_SINCE = 13
"""The first opset with axes as inputs."""
_RANK = 4

Writer = Callable[[Rewrite, AttentionForm], Refusal | None]


def fuse_attentions(editor: Editor, operator: str, write: Writer) -> None:
    """Replace every attention that an operator of ONNX Runtime supports."""

    def write_or_refuse(r: Rewrite, form: AttentionForm) -> Refusal | None:
        refusal = refusal_of(form, r.op)
        return write(r, form) if refusal is None else refusal

    triangles = Triangles(editor.graph)
    fuse_each(editor, operator, "MatMul", lambda node: recognise(node, triangles), write_or_refuse)
    drop_masks(editor, CONTRIBUTED_DOMAIN, triangles)


def refusal_of(form: AttentionForm, op: Builder) -> Refusal | None:
    """Return the reason why no attention of ONNX Runtime supports this one; None if some do."""
    sizes = (form.heads, form.kv_heads, form.size, form.v.sizes[3])
    if len(form.q.perm) != _RANK or not all(isinstance(size, int) for size in sizes):
        return no("there is no axis of heads, or the number or size of heads is not known", at=form.root)
    if form.dtype is not ir.DataType.FLOAT or form.softmax_in not in (None, form.dtype):
        return no("it is not in single precision", at=form.root)
    if form.guarded and not all(mask.is_finite for mask in form.masks):
        return no("fully masked queries give zeros here, but NaN in ONNX Runtime", at=form.root)
    if op.opset < _SINCE:
        return no(f"it needs opset {_SINCE}: run convert-opset", at=form.root)
    return None


def flat_inputs(op: Builder, form: AttentionForm) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Return queries, keys and values as ``[batch, sequence, heads * size]``, built where the graph lacks them."""
    q, k, v = (heads.flat or _merged(op, heads) for heads in (form.q, form.k, form.v))
    return q, k, v


def _merged(op: Builder, heads: Heads) -> ir.Value:
    perm = [heads.perm[axis] for axis in SEQUENCE_FIRST]
    _, count, _, size = heads.sizes
    assert isinstance(count, int)
    assert isinstance(size, int)
    return op.Reshape(transposed(op, heads.value, perm), [0, 0, count * size])


def attention_bias(op: Builder, form: AttentionForm) -> ir.Value | None:
    """Build the mask in the form of ONNX Runtime: additive, with four dimensions."""
    mask = full_mask(op, form, added=True)
    if mask is None or form.mask_rank == _RANK:
        return mask
    missing = _RANK - max(form.mask_rank, 2)
    wide: ir.Value = op.Unsqueeze(mask, list(range(missing)))
    wide.shape = None if mask.shape is None else ir.Shape([*[1] * missing, *mask.shape])
    return wide


def replace_results(r: Rewrite, form: AttentionForm, made: Any) -> None:
    """Replace the result and the cached keys and values."""
    result, *presents = cast("list[ir.Value]", made if isinstance(made, list) else [made])
    if form.merge is None:
        split = r.op.Reshape(result, [0, 0, form.heads, form.v.sizes[3]])
        result = r.op.Transpose(split, perm=list(SEQUENCE_FIRST))
    r.replace(form.output, result)
    replace_presents(r, form, presents)
