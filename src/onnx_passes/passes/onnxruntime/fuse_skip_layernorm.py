"""Fuse a skip connection and the normalization after it into one operator of ONNX Runtime."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.walk import all_nodes
from onnx_passes.graph.arguments import argument
from onnx_passes.graph.constants import is_constant
from onnx_passes.graph.shapes import dimension, rank, same_dtype, same_shape
from onnx_passes.graph.uses import is_used_elsewhere
from onnx_passes.ops.definition import CONTRIBUTED_DOMAIN
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass
from onnx_passes.rewrite.refusal import Refusal, no

_OPERATORS = {
    "LayerNormalization": "SkipLayerNormalization",
    "RMSNormalization": "SkipSimplifiedLayerNormalization",
}
_TYPES = (ir.DataType.FLOAT, ir.DataType.FLOAT16)
_EPSILON = 1e-5
"""The default of both normalizations in ONNX."""


@passes.verify.tolerance
@passes.register(tags=("onnxruntime",))
class FuseSkipLayernorm(EditorPass):
    """Fuse a skip connection, with a bias, and the normalization after it into one operator of ONNX Runtime.

    Rewrites: ``LayerNormalization(x + s, g, b)`` → ``com.microsoft.SkipLayerNormalization(x, s, g, b)``;
              ``RMSNormalization(x + s, g)`` → ``com.microsoft.SkipSimplifiedLayerNormalization(x, s, g)``;
              ``(x + c) + s`` includes the bias ``c``; a sum that is used elsewhere is a result of the new node. For
              devices with a fast kernel: on a CPU it takes 6 times (1.7 times for RMSNormalization) as long as separate
              operators, so that it is not a member of ``fuse-onnxruntime``.
    Refuses:  other axes than the last one; summands of different or unknown shape, or not of two or three dimensions;
              other types than single and half precision; statistics that are used; parameters that are computed.
    Exactness: rounding.
    """

    needs = ("shape-inference",)
    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Fuse the normalizations of the graph and its subgraphs."""
        for norm in [node for node in all_nodes(model.graph) if not node.domain and node.op_type in _OPERATORS]:
            total = norm.inputs[0]
            add = None if total is None else total.producer()
            if total is None or add is None or not _is_add(add) or add.graph is not norm.graph:
                continue
            bias, inner, summands = _summands(add)
            with editor.rewrite(norm.op_type, norm, matched=[*inner, add, norm]) as r:
                refusal = _refusal(norm, summands)
                if refusal is not None:
                    r.refuse(refusal.reason, refusal.at)
                    continue
                scale, shift = norm.inputs[1], argument(norm, 2)
                given = [*summands, scale, *([shift] if norm.op_type == "LayerNormalization" else []), bias]
                while given[-1] is None:
                    given.pop()
                forked = is_used_elsewhere(total)
                results = r.op.op(
                    _OPERATORS[norm.op_type],
                    *given,
                    _domain=CONTRIBUTED_DOMAIN,
                    _outputs=[None, "", "", None] if forked else 1,
                    epsilon=norm.attributes.get_float("epsilon", _EPSILON),
                )
                r.replace(norm.outputs[0], results[0] if forked else results)
                if forked:
                    r.replace(total, results[3])


def _is_add(node: ir.Node | None) -> bool:
    return node is not None and node.op_type in ("Add", "Sum") and not node.domain and len(node.inputs) == 2


def _summands(add: ir.Node) -> tuple[ir.Value | None, list[ir.Node], list[ir.Value | None]]:
    """Return the bias of a summand, or None, the nodes that add it, and the summands without it."""
    for index, value in enumerate(add.inputs):
        inner = None if value is None else value.producer()
        if value is None or inner is None or not _is_add(inner) or inner.graph is not add.graph:
            continue
        for place, bias in enumerate(inner.inputs):
            x = inner.inputs[1 - place]
            if _is_bias(bias, x) and same_shape(x, value) and not is_used_elsewhere(value):
                return bias, [inner], [x, add.inputs[1 - index]]
    return None, [], list(add.inputs)


def _is_bias(bias: ir.Value | None, x: ir.Value | None) -> bool:
    return is_constant(bias) and rank(bias) == 1 and dimension(bias, 0) == dimension(x, -1) and same_dtype(bias, x)


def _refusal(norm: ir.Node, summands: list[ir.Value | None]) -> Refusal | None:
    """Return the reason why a normalization of a sum cannot be fused; None if it can."""
    x, skip = summands
    dims = rank(x)
    if dims not in (2, 3) or not same_shape(x, skip):
        return no("the summands are not of the same known shape of two or three dimensions", at=x)
    if x is None or x.dtype not in _TYPES or not same_dtype(x, skip):
        return no("the summands are not of single or half precision", at=x)
    if norm.attributes.get_int("axis", -1) not in (-1, dims - 1):
        return no("it does not normalize along the last axis alone", at=norm)
    if any(output.name and (output.uses() or output.is_graph_output()) for output in norm.outputs[1:]):
        return no("mean or deviation are used", at=norm)
    width = dimension(x, -1)
    for parameter in norm.inputs[1:]:
        if parameter is None:
            continue
        if not (is_constant(parameter) or parameter.producer() is None):
            return no("its scale or bias is computed", at=parameter)
        if rank(parameter) != 1 or width is None or dimension(parameter, 0) != width or not same_dtype(x, parameter):
            return no(
                "its scale or bias is not a vector along the last axis, of the type of the summands", at=parameter
            )
    return None
