"""Operators as pictures show them: what one is for, and what it calls its inputs."""

from __future__ import annotations

from typing import Literal

import onnx_ir as ir

from onnx_passes.graph.operators import Key
from onnx_passes.graph.schemas import parameter_names, takes_graphs
from onnx_passes.graph.traits import TRAITS, Kind
from onnx_passes.ops.collection import DEFINITIONS
from onnx_passes.ops.quantizing import QUANTIZERS, Quantizing

Family = Literal[
    "product", "quantizer", "activation", "arithmetic", "normalization", "movement", "reduction", "control", "other"
]
_FAMILIES: dict[Kind, Family] = {
    "product": "product",
    "movement": "movement",
    "normalization": "normalization",
    "pooling": "reduction",
    "reduction": "reduction",
}


def key_of(name: str) -> Key:
    """Return domain and name of an operator by its text, ``com.microsoft::Gelu``."""
    domain, _, op_type = name.rpartition("::")
    return domain, op_type.partition(":")[0]


def family_of(operator: ir.Node | Key) -> Family:
    """Return what kind of operator it is, for its colour."""
    if QUANTIZERS.get(operator) or any(isinstance(each, Quantizing) for each in DEFINITIONS.get(operator) or ()):
        return "quantizer"
    traits = TRAITS.get(operator)
    if traits is not None and traits.kind == "elementwise":
        return "activation" if traits.arity == 1 else "arithmetic"
    domain, op_type = (operator.domain, operator.op_type) if isinstance(operator, ir.Node) else operator
    if takes_graphs(domain, op_type):
        return "control"
    return "other" if traits is None else _FAMILIES.get(traits.kind, "other")


def operand_names(operator: ir.Node | Key) -> tuple[str, ...]:
    """Return what an operator calls its inputs; nothing of operators that nobody knows."""
    definition = next(iter(DEFINITIONS.get(operator) or ()), None)
    if definition is not None:
        return tuple(given.name for given in definition.inputs)
    domain, op_type = (operator.domain, operator.op_type) if isinstance(operator, ir.Node) else operator
    return parameter_names(domain, op_type)
