"""All operators that have a definition, found by what a node is called."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.ops.definition import DEFINITIONS, Definition


def definition_of(node: ir.Node) -> Definition | None:
    """Return the definition of the operator of a node, or nothing for standard and unknown ones."""
    if not node.domain:
        return None
    return next((definition for definition in DEFINITIONS.get(node) or () if definition.takes(node)), None)


def definitions() -> list[Definition]:
    """List all definitions by name, each once."""
    found = {definition: None for versions in DEFINITIONS.table().values() for definition in versions}
    return sorted(found, key=lambda definition: (definition.name, type(definition).__name__))
