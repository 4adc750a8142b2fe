"""A number that detects changes of the computation, within one run and quickly."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.core.walk import all_graphs, all_nodes


def wiring(model: ir.Model) -> int:
    """Return a number that changes with nodes, attributes, wiring, interface or initializers, by object identity.

    A digest of contents would cost ten times as much. The order of nodes, types, shapes and metadata are ignored.
    """
    total = hash(tuple(model.functions))
    for container in (model.graph, *model.functions.values()):
        total += hash((*map(id, container.inputs), None, *map(id, container.outputs)))
        for graph in (container, *all_graphs(container)):
            if isinstance(graph, ir.Graph):
                total += sum(hash((name, id(value.const_value))) for name, value in graph.initializers.items())
        for node in all_nodes(container):
            parts = (*map(id, node.inputs), None, *map(id, node.attributes.data.values()))
            total += hash((id(node), node.domain, node.op_type, *parts))
    return total
