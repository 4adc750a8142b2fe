"""Inputs of operators: integers that they demand, integers that they take, and values that they pass on unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import onnx_ir as ir

from onnx_passes.graph.constants import constant
from onnx_passes.graph.operators import Interface
from onnx_passes.graph.traits import traits_of
from onnx_passes.ops.definition import CONTRIBUTED_DOMAIN
from onnx_passes.ops.facts.risks import is_safe_divisor


class Indices(NamedTuple):
    """Integers that point into another input."""

    into: int


Demand = tuple[int, int] | Indices
DEMANDS: Interface[Mapping[int, Demand]] = Interface(
    "demands", "which integers its inputs must be: between two numbers, or indices of another input"
)
# Outside of these, some operators fail by ending the process.
DEMANDS.attach(
    {
        **{name: {1: Indices(0)} for name in ("Gather", "GatherElements", "GatherND")},
        **{name: {1: Indices(0)} for name in ("Scatter", "ScatterElements", "ScatterND")},
        **{name: {1: (1, 4)} for name in ("Div", "Mod")},
        "ConstantOfShape": {0: (1, 3)},
        "Expand": {1: (1, 1)},
        "Tile": {1: (1, 2)},
        "TopK": {1: (1, 1)},
    }
)
DEMANDS.attach({"EmbedLayerNormalization": {0: Indices(2), 1: Indices(4)}}, domains=(CONTRIBUTED_DOMAIN,))

_MOVES_DATA = frozenset(
    {"Identity", "Cast", "Reshape", "Unsqueeze", "Squeeze", "Transpose", "Flatten", "Expand", "Slice", "Tile"}
)
_WINDOWS = frozenset({"Conv", "MaxPool", "AveragePool", "Pad", "ConvInteger", "QLinearConv", "DFT", "Scan", "STFT"})
_EXACT = frozenset({"Add", "Sub", "Mul", "Neg", "Abs", "Sign", "Min", "Max", "Clip", "Relu", "Where", "Concat", "Not"})
_BITWISE = frozenset({"BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"})
_ROUNDS = frozenset({"Round", "Floor", "Ceil"})
_DIVIDES = frozenset({"Div", "Mod"})
_BESIDE = {"Equal": (0,), "Less": (0, -1), "LessOrEqual": (0, 1), "Greater": (0, 1), "GreaterOrEqual": (0, -1)}
"""What to add to a constant for values on both sides of it, the input being the first operand."""


def moves_data(node: ir.Node) -> bool:
    """Return whether a node gives the elements of its first input other places, or another type."""
    return node.domain == "" and node.op_type in _MOVES_DATA


def passes_on(node: ir.Node, index: int) -> bool:
    """Return whether the elements of an input are elements of the result."""
    return (moves_data(node) and index == 0) or (node.domain == "" and node.op_type == "Concat")


def needs_room(node: ir.Node) -> bool:
    """Return whether a node needs images of some dozens of pixels, or signals of some hundreds of values."""
    return node.op_type in _WINDOWS


def compares(node: ir.Node) -> bool:
    """Return whether a node compares two values."""
    return bool(traits_of(node).converse)


def divides(node: ir.Node) -> bool:
    """Return whether a node divides its first input by its second."""
    return node.domain == "" and node.op_type in _DIVIDES


Freedom = Literal["any", "signed", "counts"]
"""Any integer of the type; small ones of both signs; only small ones that may count something."""


def freedom_of_use(node: ir.Node, index: int, is_float: bool) -> Freedom:
    """Return which integers a standard operator takes, or which floats that were integers."""
    kind = node.op_type
    if compares(node) or kind == "Cast" or passes_on(node, index):
        return "any"
    if is_float:
        return "any" if kind in _ROUNDS else "signed"
    if divides(node):
        # The smallest integer divided by -1 ends the process, as a division by zero does.
        if index == 1:
            return "counts"
        return "any" if is_safe_divisor(node.inputs[1]) else "signed"
    if kind in _EXACT or kind in _BITWISE or (kind == "BitShift" and index == 0):
        return "any"
    return "counts"


def values_beside(node: ir.Node, index: int) -> Sequence[int]:
    """Return the integers of an input on both sides of the constant that a node compares it with."""
    steps = _BESIDE.get(node.op_type if index == 0 else traits_of(node).converse)
    other = None if steps is None else constant(node.inputs[1 - index])
    if steps is None or other is None or other.size != 1 or not float(other.reshape(-1)[0]).is_integer():
        return ()
    return [int(other.reshape(-1)[0]) + more for more in steps]
