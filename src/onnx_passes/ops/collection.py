"""All operators that are defined here, found by what a node is called."""

from __future__ import annotations

from functools import cache

import onnx_ir as ir

from onnx_passes.ops.bipolar_quant import BipolarQuant
from onnx_passes.ops.definition import Definition

DEFINITIONS: tuple[Definition, ...] = (BipolarQuant(),)


def definition_of(node: ir.Node) -> Definition | None:
    """Return the definition of the operator of a node, or nothing for standard and unknown ones."""
    if not node.domain:
        return None
    candidates = _by_name().get((node.domain, node.op_type), ())
    return next((definition for definition in candidates if definition.takes(node)), None)


@cache
def _by_name() -> dict[tuple[str, str], tuple[Definition, ...]]:
    table: dict[tuple[str, str], tuple[Definition, ...]] = {}
    for definition in DEFINITIONS:
        for domain in definition.domains:
            for name in (definition.name, *definition.aliases):
                table[domain, name] = (*table.get((domain, name), ()), definition)
    return table
