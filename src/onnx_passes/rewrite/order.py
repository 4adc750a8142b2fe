"""Topological ranks that follow edits, so that a rewrite can be refused if it closes a cycle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import onnx_ir as ir

from onnx_passes.graph.edits import subgraphs_of


class Order:
    """A rank per node of one graph such that no producer ranks above its consumers."""

    def __init__(self, graph: ir.Graph, owners: Mapping[ir.Graph, ir.Node]) -> None:
        self._graph = graph
        self._owners = owners
        self._ranks = {node: rank for rank, node in enumerate(graph)}
        # The list of nodes may not be in order: rules with several outputs leave sorting to the end.
        self.update(graph)

    def update(self, nodes: Iterable[ir.Node]) -> None:
        """Rank nodes that are new, and lift whatever uses nodes that are new or have new users."""
        waiting = list(nodes)
        for node in waiting:
            if node not in self._ranks:
                producers = [value.producer() for value in used_values(node) if value is not None]
                self._ranks[node] = max((self._ranks.get(p, 0) for p in producers if p is not None), default=0)
        while waiting:
            node = waiting.pop()
            rank = self._ranks[node]
            for user in self._users(node):
                if self._ranks.get(user, -1) < rank:
                    self._ranks[user] = rank
                    waiting.append(user)

    def reaches(self, values: Iterable[ir.Value], targets: set[ir.Node]) -> bool:
        """Tell whether a target uses one of the values, be it through other nodes or subgraphs."""
        last = max((self._ranks.get(node, 0) for node in targets), default=-1)
        waiting = list(self._present(user for value in values for user in value.consumers()))
        seen = set(waiting)
        while waiting:
            node = waiting.pop()
            if node in targets:
                return True
            if self._ranks.get(node, 0) > last:
                continue
            for user in self._users(node):
                if user not in seen:
                    seen.add(user)
                    waiting.append(user)
        return False

    def around(self, node: ir.Node) -> ir.Node | None:
        """Return the node of this graph that a node is or lies in; a node outside of any graph has none."""
        outer: ir.Node | None = node
        while outer is not None and outer.graph is not self._graph:
            outer = None if outer.graph is None else self._owners.get(outer.graph)
        return outer

    def _users(self, node: ir.Node) -> Iterator[ir.Node]:
        return self._present(node.successors())

    def _present(self, nodes: Iterable[ir.Node]) -> Iterator[ir.Node]:
        return (here for here in map(self.around, nodes) if here is not None)


def is_sorted(graph: ir.Graph) -> bool:
    """Tell whether each node of a graph comes behind those that it, or a subgraph of it, reads from."""
    before: set[ir.Node | None] = {None}
    for node in graph:
        for value in used_values(node):
            if value is not None and value.graph is graph and value.producer() not in before:
                return False
        before.add(node)
    return True


def used_values(node: ir.Node) -> Sequence[ir.Value | None]:
    """List the values that a node uses, itself or in its subgraphs, and that are defined outside of it."""
    graphs = subgraphs_of(node) if node.attributes else ()
    if not graphs:
        return node.inputs
    inside = {inner for graph in graphs for inner in (graph, *graph.subgraphs())}
    nested = (value for graph in graphs for inner in graph.all_nodes() for value in inner.inputs)
    return [*node.inputs, *(value for value in nested if value is not None and value.graph not in inside)]


def with_nested(node: ir.Node) -> Sequence[ir.Node]:
    """List a node and all nodes in its subgraphs."""
    graphs = subgraphs_of(node) if node.attributes else ()
    return [node, *(inner for graph in graphs for inner in graph.all_nodes())]
