"""Formulas by which runtimes recognise operators that the opset of a model lacks, and which must not be split."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.graph.constants import is_number
from onnx_passes.graph.producers import made_by
from onnx_passes.graph.shapes import rank


def is_normalized(value: ir.Value) -> bool:
    """Return whether a value is a quotient by a square root, as in the definition of a normalization."""
    node = made_by(value, "Mul")
    if node is None:
        return _is_divided_by_root(value)
    return any(_is_divided_by_root(operand) for operand in node.inputs)


def _is_divided_by_root(value: ir.Value | None) -> bool:
    node = made_by(value, "Div", "Reciprocal")
    return node is not None and made_by(node.inputs[-1], "Sqrt") is not None


def scales_normalized(factor: ir.Value, value: ir.Value) -> bool:
    """Return whether a factor is the scale of a decomposed normalization: a vector, even one of ones."""
    return bool(rank(factor)) and is_normalized(value)


def halves_gelu(factor: ir.Value, value: ir.Value) -> bool:
    """Return whether a factor is the final half in the definition of Gelu, exact or approximate."""
    node = made_by(value, "Mul") if is_number(factor, 0.5, value) else None
    gates = () if node is None else [made_by(operand, "Add") for operand in node.inputs]
    return any(gate is not None and any(made_by(operand, "Erf", "Tanh") for operand in gate.inputs) for gate in gates)
