"""Definitions of operators as text for people, and as plain data."""

from __future__ import annotations

import inspect
from typing import Any

from onnx_passes.core.plain import plain
from onnx_passes.graph.operators import interfaces_of
from onnx_passes.ops.collection import definitions
from onnx_passes.ops.definition import Attribute, Definition


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
