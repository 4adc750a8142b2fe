"""Write the sum before a normalization as Sum, which ONNX Runtime does not fuse into a slower operator."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.walk import all_nodes
from onnx_passes.graph.shapes import rank, same_shape
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass

_RULE = "sum before a normalization"
_SINCE = 8
"""The first opset in which Sum broadcasts."""


@passes.verify.equality
@passes.register(tags=("onnxruntime", "simplify"))
class ConvertSkipToSum(EditorPass):
    """Write the sum of a skip connection before LayerNormalization as Sum, which ONNX Runtime does not fuse.

    ONNX Runtime fuses ``Add`` and the normalization into SkipLayerNormalization, which is five times slower on a CPU.

    Rewrites: ``LayerNormalization(x + s, …)`` → ``LayerNormalization(Sum(x, s), …)``, also for a decomposed
              normalization.
    Refuses:  sums that ONNX Runtime does not fuse anyway: summands that are not of the same shape of three dimensions,
              other types than single precision, a sum that is used elsewhere, or is an output; opsets below 8.
    Exactness: bit-exact.
    """

    needs = ("shape-inference",)
    preserves = ("shape-inference", "topological-sort", "unique-names")

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Rewrite the sums of the graph and its subgraphs."""
        for add in [node for node in all_nodes(model.graph) if not node.domain and node.op_type == "Add"]:
            if not _is_normalized_only(add.outputs[0]):
                continue
            x, s = add.inputs
            with editor.rewrite(_RULE, add) as r:
                if x is None or rank(x) != 3 or not same_shape(x, s) or x.dtype is not ir.DataType.FLOAT:
                    r.refuse("the summands are not of the same shape of three dimensions, in single precision", at=x)
                elif r.op.opset < _SINCE:
                    r.refuse(f"Sum needs opset {_SINCE}", at=add)
                else:
                    r.replace(add.outputs[0], r.op.Sum(x, s))


def _is_normalized_only(value: ir.Value) -> bool:
    """Return whether only a normalization reads a value: one node, or its definition ``x - ReduceMean(x)``."""
    if value.is_graph_output():
        return False
    users = [(node.op_type, index) for node, index in value.uses() if not node.domain]
    if users == [("LayerNormalization", 0)]:
        return len(value.uses()) == 1
    means = [node for node, index in value.uses() if node.op_type == "ReduceMean" and not index]
    subs = [node for node, index in value.uses() if node.op_type == "Sub" and not index]
    if len(means) != 1 or not subs or len(value.uses()) != 1 + len(subs):
        return False
    return all(node.inputs[1] is means[0].outputs[0] for node in subs)
