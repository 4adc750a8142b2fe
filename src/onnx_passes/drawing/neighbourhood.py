"""The neighbourhood of a node along the uses of values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import onnx_ir as ir

from onnx_passes.core.walk import all_nodes, holds_graphs, nested_graphs
from onnx_passes.drawing.build import is_drawn, read_values


def neighbourhood(graph: ir.Graph, centres: Iterable[ir.Node], hops: int, limit: int | None) -> list[ir.Node]:
    """Return the nodes at most ``hops`` steps away, in graph order, and no more than the limit.

    A centre inside a subgraph counts as the node that holds it. Nearer nodes take precedence within the limit.
    """
    homes = holders(graph)
    found = dict.fromkeys(homes[node] for node in centres if node in homes)
    edge = list(found)
    for _ in range(hops):
        near = dict.fromkeys(other for node in edge for other in _beside(node, homes))
        edge = [node for node in near if node not in found]
        found.update(dict.fromkeys(edge))
        if limit is not None and len(found) >= limit:
            break
    kept = set(list(found)[:limit])
    return [node for node in graph if node in kept]


def holders(graph: ir.Graph) -> dict[ir.Node, ir.Node]:
    """Return for every node, also of subgraphs, the node of the graph that is it or holds it."""
    homes: dict[ir.Node, ir.Node] = {}
    for node in graph:
        homes[node] = node
        if holds_graphs(node):
            homes.update((inner, node) for nested in nested_graphs(node) for inner in all_nodes(nested))
    return homes


def _beside(node: ir.Node, homes: Mapping[ir.Node, ir.Node]) -> Iterator[ir.Node]:
    for value in read_values(node):
        producer = value.producer()
        if producer is not None and producer in homes and is_drawn(producer):
            yield homes[producer]
    for value in node.outputs:
        yield from (homes[reader] for reader, _ in value.uses() if reader in homes)
