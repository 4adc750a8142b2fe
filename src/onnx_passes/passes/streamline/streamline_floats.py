"""The pipeline that streamlines a float network."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Context, PassResult
from onnx_passes.core.compose import ComposePass
from onnx_passes.core.walk import all_nodes
from onnx_passes.graph import annotations

_ROUNDING = frozenset({"Ceil", "Floor", "Round", "Sign", "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"})


@passes.verify.tolerance
@passes.register(tags=("streamline",))
class StreamlineFloats(ComposePass):
    """Sink data movement and constant factors of a float network towards its outputs, where they merge.

    Rewrites: ``reorder, move-scale-down, eliminate, fold-constants``, until nothing changes: transpositions and
              reshapes cancel after elementwise operators, factors merge after products and joins.
    Refuses:  models with quantizers, rounding, operators of other domains or annotated data types, whose scales
              ``aggregate-scales`` moves with knowledge of integers; the cases that its members refuse.
    Exactness: tolerance: sums and factors are reordered.
    """

    passes = ("reorder", "move-scale-down", "together(eliminate)", "eliminate-common-subexpression", "fold-constants")
    exhaustive = True

    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Run the members, unless the network is quantized."""
        return PassResult(model, modified=False) if _is_quantized(model) else super().run(model, context)


def _is_quantized(model: ir.Model) -> bool:
    if any(node.domain or node.op_type in _ROUNDING for node in all_nodes(model.graph)):
        return True
    return any(annotations.get(value) for value in annotations.values(model.graph))
