"""Find a node by its name, by the name of one of its outputs, or by a node or value."""

from __future__ import annotations

from typing import Any, TypeAlias

import onnx_ir as ir

from onnx_passes.core.errors import UsageError, did_you_mean

Place: TypeAlias = "str | ir.Node | ir.Value"
"""A node or value, or its name; objects denote their names, also in copies of the model."""


def place_name(place: Place) -> str:
    """Return the name by which a node, or the value, is found in any copy of its model."""
    given: Any = place
    if isinstance(given, str):
        return given
    node = given.producer() if isinstance(given, ir.Value) else given
    if isinstance(node, ir.Node):
        name = node.name or next((value.name for value in node.outputs if value.name), None)
    elif isinstance(given, ir.Value):
        name = given.name
    else:
        kind = type(given).__name__
        raise UsageError(
            f"a node or value was expected, and one of type {kind} was found", hint="give a name, node or value"
        )
    if not name:
        raise UsageError("the node or value has no name", hint="run unique-names first, which names all of them")
    return name


def find_node(model: ir.Model | ir.Graph | ir.Function, place: Place) -> ir.Node:
    """Return the node with a name, or with an output of that name, in a graph, its subgraphs or the functions."""
    name = place_name(place)
    graphs = (model.graph, *model.functions.values()) if isinstance(model, ir.Model) else (model,)
    nodes = [node for graph in graphs for node in graph.all_nodes()]
    known: dict[str, ir.Node] = {}
    for node in nodes:
        for output in node.outputs:
            known.setdefault(output.name or "", node)
    # Names of nodes take precedence over equal names of values.
    known.update({node.name: node for node in reversed(nodes) if node.name})
    known.pop("", None)
    if name in known:
        return known[name]
    graph = graphs[0].graph if isinstance(graphs[0], ir.Function) else graphs[0]
    if name in graph.initializers or any(value.name == name for value in graph.inputs):
        raise UsageError(f"'{name}' is not computed by a node", hint="name a node or a result of one")
    raise UsageError(
        f"the model has no node named '{name}', and none with an output of that name",
        hint=did_you_mean(name, known) or "'onnx-passes inspect' shows the model",
    )
