"""Match an attention from its last product backwards, in the forms that exporters write."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import onnx_ir as ir

from onnx_passes.graph.constants import number
from onnx_passes.graph.shapes import Dim, rank, same_dim
from onnx_passes.graph.uses import is_only_read_by, is_standard, is_used_elsewhere, made_by
from onnx_passes.passes.attention.form import AttentionForm, Past
from onnx_passes.passes.attention.heads import (
    HEADS_FIRST,
    merged,
    read_key,
    read_query,
    read_value,
    scaled_by,
    uncached,
    unrepeated,
)
from onnx_passes.passes.attention.masks import Mask, added, fits, may_leave_out_all, put_in_place
from onnx_passes.passes.attention.triangles import Triangles
from onnx_passes.rewrite.refusal import Refusal, no

_TYPES = (ir.DataType.FLOAT, ir.DataType.FLOAT16)
_RANKS = (3, 4)
_MOST_ASIDE = 32
"""Maximum number of nodes that may compute the sizes of repeated heads."""


@dataclass
class _Weights:
    """Findings between the attention weights and the product of queries and keys."""

    nodes: list[ir.Node] = field(default_factory=list[ir.Node])
    guarded: bool = False
    masks: list[Mask] = field(default_factory=list[Mask])
    softcap: float = 0.0
    scale: float = 1.0
    softmax_in: ir.DataType | None = None
    product: ir.Node | None = None


def recognise(last: ir.Node, triangles: Triangles) -> AttentionForm | Refusal | None:
    """Match the product of weights and values as an attention; None without a softmax."""
    if not is_standard(last, "MatMul"):
        return None
    weights = _Weights([last])
    softmax = _softmax(last.inputs[0], weights)
    if softmax is None:
        return None
    refusal = _read_softmax(softmax, weights)
    if refusal is not None:
        return refusal
    assert weights.product is not None
    q_value, k_value = weights.product.inputs
    v_value = last.inputs[1]
    if q_value is None or k_value is None or v_value is None:
        return no("an input is missing", at=last)
    for node in weights.nodes[1:]:
        if is_used_elsewhere(node.outputs[0]) and not _is_guard(node, weights.nodes):
            return no("a value inside is used elsewhere, too", at=node.outputs[0])
    if (
        q_value.dtype is None
        or q_value.dtype not in _TYPES
        or v_value.dtype != q_value.dtype
        or k_value.dtype != q_value.dtype
    ):
        return no("the inputs are not all of single or all of half precision", at=q_value)
    length = rank(q_value)
    if length not in _RANKS or rank(k_value) != length or rank(v_value) != length:
        return no("queries, keys and values are not all of rank three or all of rank four", at=q_value)
    q, k, v = read_query(q_value), read_key(k_value), read_value(v_value)
    form = AttentionForm(
        output=last.outputs[0],
        q=q,
        k=k,
        v=v,
        scale=weights.scale * q.scale * k.scale,
        scores=(*(q.sizes[:3] if length == len(HEADS_FIRST) else (q.sizes[0], q.sizes[2])), k.sizes[2]),
        dtype=q_value.dtype,
        nodes=tuple(weights.nodes),
        softcap=weights.softcap,
        masks=tuple(weights.masks),
        guarded=weights.guarded,
        softmax_in=weights.softmax_in,
    )
    return _checked(_with_heads(form), triangles)


def reread(node: ir.Node, triangles: Triangles) -> AttentionForm | Refusal | None:
    """Match an existing Attention with the nodes around it that split, repeat and cache heads; None if none."""
    q, k, v = node.inputs[:3]
    if q is None or k is None or v is None or q.dtype is None or any(node.inputs[4:]) or len(node.outputs) != 1:
        return None
    if not all(rank(value) == len(HEADS_FIRST) for value in (q, k, v)):
        return None
    heads = [read_value(value) for value in (q, k, v)]
    scores = (*heads[0].sizes[:3], heads[1].sizes[2])
    before = AttentionForm(node.outputs[0], *heads, scale=1.0, scores=scores, dtype=q.dtype, nodes=(node,))
    form = _with_heads(before)
    if form.past is not None and node.attributes.get_int("is_causal", 0):
        return no("is_causal counts keys from the end of a cache, here from its beginning", at=node)
    gains = form.merge is not None or form.past is not None or form.kv_heads != before.kv_heads
    return _checked(form, triangles) if gains else None


def _softmax(value: ir.Value | None, weights: _Weights) -> ir.Node | None:
    """Return the softmax before casts and a guard against fully masked rows; None if there is none."""
    node = None if value is None else value.producer()
    while node is not None:
        weights.nodes.append(node)
        if is_standard(node, "Softmax"):
            return node
        if is_standard(node, "Where"):
            node = _guarded(node, weights)
        elif is_standard(node, "Cast", "Dropout", "Identity"):
            node = None if node.inputs[0] is None else node.inputs[0].producer()
        else:
            return None
    return None


def _guarded(where: ir.Node, weights: _Weights) -> ir.Node | None:
    """Match ``Where(IsNaN(p), 0, p)``."""
    condition, zero, given = where.inputs
    test = made_by(condition, "IsNaN")
    if test is None or test.inputs[0] is not given or number(zero, given) != 0:
        return None
    weights.nodes.append(test)
    weights.guarded = True
    return None if given is None else given.producer()


def _is_guard(node: ir.Node, nodes: list[ir.Node]) -> bool:
    """Return whether only the guard against NaN adds a second use."""
    return is_only_read_by(node.outputs[0], nodes)


def _read_softmax(softmax: ir.Node, weights: _Weights) -> Refusal | None:
    x = softmax.inputs[0]
    length = rank(x)
    if x is None or length is None:
        return no("the rank of the scores is not known", at=x)
    if softmax.attributes.get_int("axis", -1) not in (-1, length - 1):
        return no("the softmax is not over the keys", at=softmax)
    if made_by(x, "Cast") is not None:
        weights.softmax_in = x.dtype
    return _read_scores(x, weights)


def _read_scores(value: ir.Value, weights: _Weights) -> Refusal | None:
    """Match masks, the soft cap and the scale, from the softmax back to the product."""
    while True:
        node = value.producer()
        if node is None or not _leads_to_product(value):
            return no("no product of queries and keys feeds the softmax", at=value)
        weights.nodes.append(node)
        if node.op_type == "MatMul":
            weights.product = node
            return None
        steps = (step(node, weights) for step in (_masked, _capped, _scaled, _converted))
        found = next((step for step in steps if step is not None), None)
        if found is None and node.op_type in ("Div", "Mul"):
            return no("the scale is not one constant number", at=node)
        if found is None:
            return no(f"{node.op_type} between the product and the softmax is not supported", at=node)
        if isinstance(found, Refusal):
            return found
        value = found


def _masked(node: ir.Node, weights: _Weights) -> ir.Value | Refusal | None:
    if not is_standard(node, "Add", "Where"):
        return None
    if weights.softcap or weights.scale != 1:
        return no("the mask is scaled or capped, too", at=node)
    first, second = node.inputs[-2:]
    for scores, other in ((first, second), (second, first)):
        if scores is None or other is None or not _leads_to_product(scores):
            continue
        if node.op_type == "Add":
            mask = added(other, node)
            weights.masks += [] if mask is None else [mask]
            return scores
        mask = put_in_place(node, scores, other, masks_true=scores is second)
        if isinstance(mask, Refusal):
            return mask
        weights.masks.append(mask)
        return scores
    return None


def _capped(node: ir.Node, weights: _Weights) -> ir.Value | None:
    """Match ``Tanh(x / c) * c``."""
    outer = scaled_by(node)
    tanh = None if outer is None else made_by(outer[0], "Tanh")
    if outer is None or tanh is None or tanh.inputs[0] is None:
        return None
    if weights.softcap or weights.scale != 1 or outer[1] <= 0:
        return None
    weights.nodes.append(tanh)
    # The operator divides by the cap itself: the remaining factors are those of scale / cap.
    weights.softcap = weights.scale = outer[1]
    return tanh.inputs[0]


def _scaled(node: ir.Node, weights: _Weights) -> ir.Value | None:
    found = scaled_by(node)
    if found is None:
        return None
    weights.scale *= found[1]
    return found[0]


def _converted(node: ir.Node, weights: _Weights) -> ir.Value | None:
    is_float = is_standard(node, "Cast") and node.inputs[0] is not None and node.inputs[0].dtype in _TYPES
    return node.inputs[0] if is_float else None


def _leads_to_product(value: ir.Value) -> bool:
    """Return whether a value is computed elementwise from a product."""
    waiting = [value]
    while waiting:
        node = waiting.pop().producer()
        if is_standard(node, "MatMul"):
            return True
        if is_standard(node, "Add", "Cast", "Div", "Mul", "Tanh", "Where"):
            waiting.extend(used for used in node.inputs if used is not None)
    return False


def _with_heads(form: AttentionForm) -> AttentionForm:
    """Match the keys and values before repetition and caching of heads, and the merge of heads at the end."""
    k, k_times = unrepeated(form.k)
    v, v_times = unrepeated(form.v)
    if k_times != v_times or len(k.perm) != len(v.perm):
        k, v = form.k, form.v
    scale = form.scale / form.k.scale * k.scale
    past: Past | None = None
    new_k, new_v = uncached(k), uncached(v)
    inside = {*form.nodes, *k.nodes, *v.nodes}
    if new_k is not None and new_v is not None and all(_is_read_within(heads.value, inside) for heads in (k, v)):
        past = Past(new_k[1], new_v[1], k.value, v.value)
        k, v = new_k[0], new_v[0]
    form = replace(form, k=k, v=v, scale=scale, past=past)
    merge = merged(form.output, form.q.sizes[0], form.q.sizes[2])
    if merge is not None and form.flat is not None:
        turn, join = merge
        form = replace(form, merge=merge, output=join.outputs[0], nodes=(join, turn, *form.nodes))
    return form


def _is_read_within(value: ir.Value, nodes: set[ir.Node]) -> bool:
    """Return whether all uses of a value lead, directly or not, only to these nodes."""
    waiting, seen = [value], set[ir.Node]()
    while waiting:
        for use in waiting.pop().uses():
            if use.node in nodes or use.node in seen:
                continue
            seen.add(use.node)
            if any(output.is_graph_output() for output in use.node.outputs) or len(seen) > _MOST_ASIDE:
                return False
            waiting.extend(use.node.outputs)
    return True


def _checked(form: AttentionForm, triangles: Triangles) -> AttentionForm | Refusal:
    """Refuse cases in which MatMul broadcasts but attention does not."""
    q, k, v = form.q.sizes, form.k.sizes, form.v.sizes
    if not (same_dim(q[0], k[0]) and same_dim(q[0], v[0])):
        return no("queries, keys and values are not known to be of the same batch", at=form.k.value)
    if (form.past is not None or form.masks) and not same_dim(k[2], v[2]):
        return no("the numbers of keys and values are not known to be equal", at=form.v.value)
    if not _are_heads(q[1], k[1]) or not same_dim(k[1], v[1]):
        return no("the heads of keys and values do not match those of the queries", at=form.k.value)
    if not 0 < form.scale < float("inf"):
        return no("the scale is not positive", at=form.root)
    for mask in form.masks:
        if not fits(mask, form.scores):
            return no("the mask is not known to broadcast to the scores", at=mask.value)
        if mask.fill is None and mask.value.dtype != form.dtype:
            return no("the mask is of another type than the queries", at=mask.value)
        if not form.guarded and may_leave_out_all(mask, triangles):
            return no("a fully masked row may be NaN, but Attention gives zeros", at=mask.value)
    return form


def _are_heads(queries: Dim, keys: Dim) -> bool:
    if isinstance(queries, int) and isinstance(keys, int):
        return keys > 0 and queries % keys == 0
    return same_dim(queries, keys)
