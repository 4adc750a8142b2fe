"""Remove what nothing reads any more, all at once: one by one, a constant with many readers costs too much."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import onnx_ir as ir

from onnx_passes.core.walk import nested_graphs
from onnx_passes.graph.edits import detach, remove_if_dead


def remove_unread(nodes: Sequence[ir.Node], keep: Collection[str]) -> bool:
    """Remove nodes, given in topological order, that nothing reads, then what only they read; tells whether any were.

    What ``keep`` names stays.
    """
    unread: dict[ir.Node, None] = {}
    with_graphs = {node: None for node in nodes if any(True for _ in nested_graphs(node))}
    for node in reversed(nodes):
        if node not in with_graphs and all(
            value.name not in keep and _is_unread(value, unread) for value in node.outputs
        ):
            unread[node] = None
    inputs = {value for node in unread for value in node.inputs if value is not None}
    by_graph: dict[ir.Graph | ir.Function | None, list[ir.Node]] = {}
    for node in unread:
        detach(node)
        by_graph.setdefault(node.graph, []).append(node)
    for graph, group in by_graph.items():
        assert graph is not None
        graph.remove(group)
    _remove_sources(inputs, keep)
    return bool(remove_if_dead(with_graphs, keep)) or bool(unread)


def _is_unread(value: ir.Value, unread: Collection[ir.Node]) -> bool:
    return not value.is_graph_output() and all(user in unread for user, _ in value.uses())


def _remove_sources(values: Collection[ir.Value], keep: Collection[str]) -> None:
    producers: dict[ir.Node, None] = {}
    for value in values:
        producer = value.producer()
        if producer is not None and producer.graph is not None:
            producers[producer] = None
        elif value.is_initializer() and value.name and value.name not in keep and _is_unread(value, ()):
            assert isinstance(value.graph, ir.Graph)
            if not value.is_graph_input():
                del value.graph.initializers[value.name]
    remove_if_dead(producers, keep)
