"""Nesting of the graphs of a model, visibility of their values, and order of their nodes by dependencies.

Topological ranks follow edits, so that a rewrite can be refused if it closes a cycle.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

import onnx_ir as ir

from onnx_passes.core.walk import holds_graphs
from onnx_passes.graph import names
from onnx_passes.graph.edits import subgraphs_of, used_values


class Order:
    """A rank per node of one graph such that no producer ranks above its consumers."""

    def __init__(self, graph: ir.Graph, owners: Mapping[ir.Graph, ir.Node]) -> None:
        self._graph = graph
        self._owners = owners
        self._ranks = {node: rank for rank, node in enumerate(graph)}
        # The list of nodes may not be in order: rules with several outputs leave sorting to the end.
        self.update(graph)

    def update(self, nodes: Iterable[ir.Node]) -> None:
        """Rank new nodes, and raise the ranks of nodes that use them, directly or through other nodes."""
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
        """Return whether a target uses one of the values, directly or through other nodes or subgraphs."""
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
        """Return the node of this graph that is or encloses a node; None if there is none."""
        outer: ir.Node | None = node
        while outer is not None and outer.graph is not self._graph:
            outer = None if outer.graph is None else self._owners.get(outer.graph)
        return outer

    def _users(self, node: ir.Node) -> Iterator[ir.Node]:
        return self._present(node.successors())

    def _present(self, nodes: Iterable[ir.Node]) -> Iterator[ir.Node]:
        return (here for here in map(self.around, nodes) if here is not None)


def is_sorted(graph: ir.Graph) -> bool:
    """Return whether each node of a graph follows the producers of all values that the node or its subgraphs use."""
    before: set[ir.Node | None] = {None}
    for node in graph:
        for value in used_values(node):
            if value is not None and value.graph is graph and value.producer() not in before:
                return False
        before.add(node)
    return True


def with_nested(node: ir.Node) -> Sequence[ir.Node]:
    """List a node and all nodes in its subgraphs."""
    graphs = subgraphs_of(node) if node.attributes else ()
    return [node, *(inner for graph in graphs for inner in graph.all_nodes())]


class Nesting:
    """The graph being rewritten and the graphs in its nodes; tracks node orders, and sorts graphs at the end."""

    def __init__(self, container: names.Container) -> None:
        self._top = container.graph if isinstance(container, ir.Function) else container
        self._owners: dict[ir.Graph, ir.Node] = {}
        self._orders: dict[ir.Graph, Order] = {}
        self._unsorted: dict[ir.Graph, None] = {}

    @property
    def graphs(self) -> Container[ir.Graph]:
        """Return the graphs that nodes hold."""
        return self._owners

    def enter_all(self, nodes: Iterable[ir.Node]) -> None:
        """Start again with the graphs that nodes hold."""
        self._owners.clear()
        self._orders.clear()
        for node in nodes:
            if holds_graphs(node):
                self.enter(node)

    def enter(self, node: ir.Node) -> None:
        """Record the graphs that a node holds."""
        for graph in subgraphs_of(node):
            self._owners[graph] = node

    def holds(self, node: ir.Node) -> bool:
        """Return whether a node is still part of the model, given the nodes that hold its graph."""
        return node.graph is self._top or any(graph is self._top for graph in self._outwards(node.graph))

    def sees(self, graph: ir.Graph, value: ir.Value) -> bool:
        """Return whether a value may be used in a graph: it is defined there or further out."""
        return any(value.graph is outer for outer in self._outwards(graph))

    def closes_cycle(self, root: ir.Node, replaced: Sequence[ir.Value], used: Iterable[ir.Value]) -> bool:
        """Return whether a value that the replacement of a match at ``root`` uses depends on the replaced values."""
        producers: dict[ir.Graph, set[ir.Node]] = {}
        for value in used:
            producer = value.producer()
            if producer is not None and producer.graph is not None:
                producers.setdefault(producer.graph, set()).add(producer)
        return any(self._reaches(root, replaced, graph, targets) for graph, targets in producers.items())

    def _reaches(self, root: ir.Node, replaced: Sequence[ir.Value], graph: ir.Graph, targets: set[ir.Node]) -> bool:
        if graph not in self._orders:
            self._orders[graph] = Order(graph, self._owners)
        order = self._orders[graph]
        if graph is root.graph:
            return order.reaches(replaced, targets)
        around = order.around(root)
        return around is not None and (around in targets or order.reaches(around.outputs, targets))

    def changed(self, nodes: Iterable[ir.Node], unsorted: Iterable[ir.Graph]) -> None:
        """Record that nodes are new or have new consumers, and which graphs may be unsorted now."""
        for graph, order in self._orders.items():
            order.update(node for node in nodes if node.graph is graph)
        self._unsorted.update(dict.fromkeys(unsorted))

    def sort(self) -> None:
        """Sort the graphs that may be out of order."""
        for graph in self._unsorted:
            if not is_sorted(graph):
                graph.sort()
        self._unsorted.clear()

    def _outwards(self, graph: ir.Graph | None) -> Iterator[ir.Graph]:
        while graph is not None:
            yield graph
            owner = self._owners.get(graph)
            graph = None if owner is None else owner.graph
