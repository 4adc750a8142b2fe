"""Definitions of operators as text and plain data, and as standard operators for engines that lack them."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from typing import Any, Literal

import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.core.plain import plain
from onnx_passes.core.walk import all_graphs
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.encode import Expand
from onnx_passes.graph.operators import Key, interfaces_of
from onnx_passes.graph.schemas import parameter_names, takes_graphs
from onnx_passes.graph.traits import TRAITS, Kind
from onnx_passes.graph.wording import name_of
from onnx_passes.ops.definition import DEFINITIONS, Attribute, Definition, definition_of, definitions
from onnx_passes.ops.quantizer import QUANTIZERS, Quantizing


def operator_names() -> list[str]:
    """List the names of all operators that are defined here, other names of them included."""
    return sorted({name for definition in definitions() for name in (definition.name, *definition.aliases)})


def definitions_named(name: str) -> tuple[Definition, ...]:
    """Return the definitions of a name in upper or lower case: several if versions share it, or none."""
    folded = name.casefold()
    return tuple(
        definition
        for definition in definitions()
        if folded in (known.casefold() for known in (definition.name, *definition.aliases))
    )


def to_text(definition: Definition) -> str:
    """Describe the computation of an operator, its inputs and attributes, and its names and domains."""
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
    """Return the family of an operator, for its colour."""
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
    """Return the names of the inputs of an operator; an empty tuple for unknown operators."""
    definition = next(iter(DEFINITIONS.get(operator) or ()), None)
    if definition is not None:
        return tuple(given.name for given in definition.inputs)
    domain, op_type = (operator.domain, operator.op_type) if isinstance(operator, ir.Node) else operator
    return parameter_names(domain, op_type)


def expander(defined: Collection[ir.OperatorIdentifier] = (), *, fast: bool = True) -> Expand:
    """Return a function that builds the expansion of a node, or returns None for nodes that need none.

    Operators in ``defined`` are left alone: the model has a function for them. The last node that is built has the
    output of the original; discard the builder when done with it.
    """

    def expand(node: ir.Node, imports: Mapping[str, int]) -> Builder | None:
        if not node.domain or node.op_identifier() in defined:
            return None
        definition = definition_of(node)
        return None if definition is None else _expansion(definition, node, imports, fast=fast)

    return expand


def _expansion(definition: Definition, node: ir.Node, imports: Mapping[str, int], *, fast: bool) -> Builder:
    op = Builder(imports, initializers_allowed=False)
    try:
        call = definition.call(node)
        result = definition.fast(op, call) if fast else definition.lower(op, call)
    except ModelError as error:
        op.discard()
        error.where = error.where or name_of(node)
        raise
    if result.producer() not in op.nodes:
        result = op.Identity(result)
    op.keep_only([result])
    name = node.outputs[0].name
    for number, value in enumerate(output for built in op.nodes for output in built.outputs):
        value.name = name if value is result else f"{name}::{number}"
    return op


def expand_nodes(model: ir.Model) -> int:
    """Replace, in place, all nodes of operators that are defined here by standard ones; returns how many it were."""
    expand = expander(model.functions, fast=False)
    count = 0
    for graph in (model.graph, *model.functions.values()):
        for scope in (graph, *all_graphs(graph)):
            imports = model.opset_imports if isinstance(graph, ir.Graph) else graph.opset_imports
            for node in tuple(scope):
                built = expand(node, imports)
                if built is not None:
                    imports.update(
                        (domain, version or 1) for domain, version in built.opsets.items() if domain not in imports
                    )
                    _replace(scope, node, built)
                    count += 1
    return count


def _replace(scope: ir.Graph | ir.Function, node: ir.Node, built: Builder) -> None:
    old, new = node.outputs[0], built.nodes[-1].outputs[0]
    new.type, new.shape = new.type or old.type, old.shape
    scope.insert_before(node, built.nodes)
    old.replace_all_uses_with(new, replace_graph_outputs=True)
    scope.remove(node, safe=True)


def uses_custom_operators(graph: ir.Graph | ir.Function) -> bool:
    """Return whether a node, in the graph or a subgraph, is of an operator that is defined here."""
    return any(
        node.domain and definition_of(node) is not None for scope in (graph, *all_graphs(graph)) for node in scope
    )
