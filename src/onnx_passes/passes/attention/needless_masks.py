"""Remove redundant attention masks: causal masks, which become an attribute, and masks that hide nothing."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.core.walk import all_nodes
from onnx_passes.graph import extents
from onnx_passes.graph.arguments import argument
from onnx_passes.graph.extents import Amount, Element, extent
from onnx_passes.graph.shapes import Dim, dims
from onnx_passes.ops.definition import CONTRIBUTED_DOMAIN
from onnx_passes.passes.attention.masks import LEAST_EXPONENT, is_as_many
from onnx_passes.passes.attention.triangles import Triangle, Triangles
from onnx_passes.passes.attention.writing import FLAT
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.refusal import Refusal, no

_RULE = "mask that is not needed"


@dataclass(frozen=True)
class _Operator:
    """Indices of the mask and cached keys of an operator, and the attribute (or its absence) that makes it causal.

    ``lengths`` is the index of the input with the number of keys without padding.
    """

    mask: int
    past: int
    attribute: str
    causal: int | None = 1
    lengths: int | None = None


_OPERATORS = {
    ("", "Attention"): _Operator(3, 4, "is_causal", lengths=6),
    (CONTRIBUTED_DOMAIN, "GroupQueryAttention"): _Operator(10, 3, "causal", causal=None),
    (CONTRIBUTED_DOMAIN, "MultiHeadAttention"): _Operator(5, 6, "unidirectional"),
}


def drop_masks(editor: Editor, domain: str, triangles: Triangles) -> None:
    """Remove masks from the attentions of a domain if they are causal or hide nothing."""
    for node in list(all_nodes(editor.graph)):
        operator = _OPERATORS.get((node.domain, node.op_type)) if node.domain == domain else None
        mask = None if operator is None else argument(node, operator.mask)
        if operator is None or mask is None:
            continue
        with editor.rewrite(_RULE, node) as r:
            refusal = _refusal(node, operator, mask, triangles)
            if refusal is not None:
                r.refuse(refusal.reason, refusal.at)
                continue
            inputs = [None if value is mask else value for value in node.inputs]
            while inputs[-1] is None:
                inputs.pop()
            is_causal = triangles.of(mask) != _hiding_nothing(mask)
            made = r.op.like(node, inputs, **({operator.attribute: operator.causal} if is_causal else {}))
            for old, new in zip(node.outputs, made if len(node.outputs) > 1 else [made], strict=True):
                if old.name:
                    r.replace(old, new)


def _refusal(node: ir.Node, operator: _Operator, mask: ir.Value, triangles: Triangles) -> Refusal | None:
    triangle, sizes = triangles.of(mask), _scores(node, operator)
    if triangle is None:
        return no("the mask does not depend only on the positions of queries and keys", at=mask)
    rows_and_columns = (dims(mask) or ())[-2:]
    if sizes is None or len(rows_and_columns) < 2 or not all(map(is_as_many, rows_and_columns, sizes)):
        return no("the mask is not known to have as many rows and columns as there are queries and keys", at=mask)
    if triangle == _hiding_nothing(mask):
        return None
    if triangle.offset is None or triangle.offset != _length(argument(node, operator.past)):
        return no("the diagonal of the mask is not known to begin at the end of the cache", at=mask)
    if mask.dtype is ir.DataType.BOOL:
        return None if triangle.near else no("the mask hides the keys before each query", at=mask)
    least = None if mask.dtype is None else LEAST_EXPONENT.get(mask.dtype)
    if triangle.near or least is None or triangle.far > least:
        return no("the mask is not 0 up to its diagonal and far below all scores beyond it", at=mask)
    return None


def _hiding_nothing(mask: ir.Value) -> Triangle:
    """Return the triangle of a mask that hides nothing."""
    number = float(mask.dtype is ir.DataType.BOOL)
    return Triangle(number, number)


def _scores(node: ir.Node, operator: _Operator) -> list[Amount] | None:
    """Return the numbers of queries and keys, cached keys included; None if unknown."""
    if operator.lengths is not None and argument(node, operator.lengths) is not None:
        return None
    queries, keys = _length(node.inputs[0]), _length(node.inputs[1])
    # With more keys than queries, the causal MultiHeadAttention differs from the standard.
    if node.domain and keys != queries:
        return None
    total = extents.add(keys, _length(argument(node, operator.past)))
    return None if queries is None or total is None else [queries, total]


def _length(value: ir.Value | None) -> Element:
    """Return the size of the sequence axis of a tensor, with or without an axis of heads."""
    if value is None:
        return 0
    sizes: tuple[Dim, ...] = dims(value) or ()
    return extent(sizes[1 if len(sizes) == FLAT else 2]) if len(sizes) in (FLAT, FLAT + 1) else None
