"""Results that differ because a value lies on the edge of two levels, and is rounded to one here, to the other there.

What rounds, counts or compares makes a step of the last bit of a float. A model that computes the same in another order
can differ there by a whole level, and both are right.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.core.walk import all_nodes
from onnx_passes.verify.compare import Status, compare
from onnx_passes.verify.execute import Sample

_STEPS = frozenset(
    {"BipolarQuant", "Ceil", "Floor", "FloatQuant", "IntQuant", "MultiThreshold", "Quant", "QuantizeLinear", "Round"}
    | {"Sign", "Trunc"}
)
ON_THE_EDGE = (
    "every rewrite holds where it stands, but values on the edge of two levels are rounded otherwise behind it"
)
_MOST = 0.1
"""A level somewhere inside moves an output by less than this part of its range."""


def only_rounds_otherwise(graph: ir.Graph, expected: Sequence[Sample], found: Sequence[Sample]) -> bool:
    """Tell whether a model has such edges, and results differ by no more than they explain."""
    if not any(node.op_type in _STEPS for node in all_nodes(graph)):
        return False
    return all(_is_near(old, new) for old, new in zip(expected, found, strict=True))


def _is_near(expected: Sample, found: Sample) -> bool:
    for tensor in compare(expected, found).tensors:
        if tensor.status is Status.EQUAL:
            continue
        if tensor.status is not Status.VALUES or tensor.nan or tensor.infinite or tensor.max_abs is None:
            return False
        span = float(np.ptp(expected[tensor.name].astype(np.float64)))
        if tensor.max_abs > _MOST * span:
            return False
    return True
