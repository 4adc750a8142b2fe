"""Products whose sums are exact, in whatever order they are added."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.analysis.sums import size_of, sums_within
from onnx_passes.passes.export.containers import largest_in
from onnx_passes.passes.export.integer_twins import IntegerTwins


def is_exact_product(twins: IntegerTwins, node: ir.Node) -> bool:
    """Tell whether a product is of integers, and none of its sums passes what its type and 32 bits hold."""
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    added = (0, 0) if bias is None else twins.bounds(bias)
    return added is not None and sums_within(node, twins.bounds, largest_in(node.outputs[0].dtype) - size_of(added))
