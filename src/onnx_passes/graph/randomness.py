"""Which nodes may give another result each time they run."""

from __future__ import annotations

import onnx_ir as ir

RANDOM = frozenset(
    {
        "Bernoulli",
        "Dropout",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    }
)
"""Operators that may give another result each time; Dropout does in training."""

_PARTS = ("Dropout", "Random", "Sampl", "Search")
"""Parts of the names of operators of ONNX Runtime that draw random numbers."""


def is_random(node: ir.Node) -> bool:
    """Tell whether computing a node twice may give two results; Dropout without a training mode does not."""
    if node.domain == "com.microsoft":
        return any(part in node.op_type for part in _PARTS)
    if node.domain != "" or node.op_type not in RANDOM:
        return False
    return node.op_type != "Dropout" or any(value is not None for value in node.inputs[2:])
