"""Definitions of operators as text, as plain data, and as families of pictures."""

from __future__ import annotations

import inspect
from typing import Any, Literal

import onnx_ir as ir

from onnx_passes.core.plain import plain
from onnx_passes.graph.operators import Key, interfaces_of
from onnx_passes.graph.schemas import parameter_names, takes_graphs
from onnx_passes.graph.traits import TRAITS, Kind
from onnx_passes.ops.definition import DEFINITIONS, Attribute, Definition, definitions
from onnx_passes.ops.quantizing import QUANTIZERS, Quantizing


def operator_names() -> list[str]:
    """List the names of all operators that are defined here, other names of them included."""
    return sorted({name for definition in definitions() for name in (definition.name, *definition.aliases)})


def definitions_named(name: str) -> tuple[Definition, ...]:
    """Return the definitions that a name means, in whatever case: several where versions share it, or none."""
    folded = name.casefold()
    return tuple(
        definition
        for definition in definitions()
        if folded in (known.casefold() for known in (definition.name, *definition.aliases))
    )


def to_text(definition: Definition) -> str:
    """Describe what an operator computes, its inputs and attributes, and where it is found."""
    parts = [f"{definition.name} (operator)", inspect.getdoc(type(definition)) or "(no documentation)"]
    inputs = [f"  {item.name}: {item.doc}{' (optional)' if item.optional else ''}" for item in definition.inputs]
    parts.append("Inputs:\n" + "\n".join(inputs))
    if definition.attributes:
        parts.append("Attributes:\n" + "\n".join(map(_attribute_line, definition.attributes)))
    facts = [
        ("Aliases", definition.aliases),
        ("Domains", definition.domains),
        ("Interfaces", tuple(interface.name for interface in interfaces_of(type(definition)))),
        ("Defined in", (type(definition).__module__,)),
    ]
    parts.append("\n".join(f"{label + ':':13} {', '.join(values)}" for label, values in facts if values))
    return "\n\n".join(parts)


def to_json(definition: Definition) -> dict[str, Any]:
    """Return plain data."""
    return {
        "operator": definition.name,
        "aliases": plain(definition.aliases),
        "domains": plain(definition.domains),
        "interfaces": [interface.name for interface in interfaces_of(type(definition))],
        "doc": inspect.getdoc(type(definition)) or "",
        "inputs": plain(definition.inputs),
        "attributes": plain(definition.attributes),
        "module": type(definition).__module__,
    }


def _attribute_line(attribute: Attribute) -> str:
    default = "" if attribute.default is None else f"={attribute.default}"
    kind = f"{attribute.kind}, required" if attribute.required else attribute.kind
    return f"  {attribute.name}{default}  ({kind})  {attribute.doc}"


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
