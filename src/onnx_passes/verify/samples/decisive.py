"""Integers with which a model takes another way: the constants that single inputs are compared with."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.graph.constants import constant
from onnx_passes.verify.samples.reference import integer_limits
from onnx_passes.verify.samples.sizes import reached

_BESIDE = {"Equal": (0,), "Less": (0, -1), "LessOrEqual": (0, 1), "Greater": (0, 1), "GreaterOrEqual": (0, -1)}
"""What to add to a constant for values on both sides of it, the input being the first operand."""
_SWAPPED = {"Less": "Greater", "Greater": "Less", "LessOrEqual": "GreaterOrEqual", "GreaterOrEqual": "LessOrEqual"}


def decisive_values(model: ir.Model, value: ir.Value) -> list[int]:
    """Return the integers of an input for which comparisons with constants come out otherwise than for most."""
    if value.dtype is None or not value.dtype.is_integer():
        return []
    low, high = integer_limits(value.dtype)
    found = dict.fromkeys(
        number for node, index in reached(model, value) if node.domain == "" for number in _beside(node, index)
    )
    return [number for number in found if low <= number <= high]


def _beside(node: ir.Node, index: int) -> list[int]:
    compares = node.op_type if index == 0 else _SWAPPED.get(node.op_type, node.op_type)
    if compares not in _BESIDE:
        return []
    other = constant(node.inputs[1 - index])
    if other is None or other.size != 1 or not float(other.reshape(-1)[0]).is_integer():
        return []
    return [int(other.reshape(-1)[0]) + more for more in _BESIDE[compares]]
