"""Find a node as people name it: by its own name, or by that of one of its outputs."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.core.errors import UsageError, did_you_mean


def find_node(model: ir.Model | ir.Graph | ir.Function, name: str) -> ir.Node:
    """Find a node of a graph, its subgraphs or the functions by its name or by that of one of its outputs."""
    graphs = (model.graph, *model.functions.values()) if isinstance(model, ir.Model) else (model,)
    nodes = [node for graph in graphs for node in graph.all_nodes()]
    known: dict[str, ir.Node] = {}
    for node in nodes:
        for output in node.outputs:
            known.setdefault(output.name or "", node)
    # A name of a node goes before the same name of a value.
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
