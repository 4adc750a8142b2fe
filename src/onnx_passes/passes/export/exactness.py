"""Products whose sums floats hold exactly, in whatever order they are added."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.analysis.ranges.rounding import EXACT_IN_FLOAT
from onnx_passes.analysis.sums import largest_sum, size_of
from onnx_passes.passes.export.workshop import Workshop


def is_exact_product(shop: Workshop, node: ir.Node) -> bool:
    """Tell whether a MatMul, Conv or ConvTranspose is of integers, and no sum of products passes what floats hold."""
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    largest, added = largest_sum(node, shop.bounds), (0, 0) if bias is None else shop.bounds(bias)
    return largest is not None and added is not None and largest + size_of(added) <= EXACT_IN_FLOAT
