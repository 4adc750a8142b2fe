"""Where the graphs of a model lie in each other, what is visible from where, and what depends on what."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence

import onnx_ir as ir

from onnx_passes.core.walk import holds_graphs
from onnx_passes.graph import names
from onnx_passes.graph.edits import subgraphs_of
from onnx_passes.rewrite.order import Order, is_sorted


class Nesting:
    """The graph being rewritten and the graphs in its nodes; knows orders, and sorts at the end what needs it."""

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
        """Note which graphs a node holds."""
        for graph in subgraphs_of(node):
            self._owners[graph] = node

    def holds(self, node: ir.Node) -> bool:
        """Tell whether a node is still part of the model; a node in a subgraph goes with the one that holds it."""
        return node.graph is self._top or any(graph is self._top for graph in self._outwards(node.graph))

    def sees(self, graph: ir.Graph, value: ir.Value) -> bool:
        """Tell whether a value may be used in a graph: it is defined there or further out."""
        return any(value.graph is outer for outer in self._outwards(graph))

    def closes_cycle(self, root: ir.Node, replaced: Sequence[ir.Value], used: Iterable[ir.Value]) -> bool:
        """Tell whether something that the replacement of a match at ``root`` uses depends on what it replaces."""
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
        """Note that nodes are new or have new users, and which graphs may be out of order now."""
        for graph, order in self._orders.items():
            order.update(node for node in nodes if node.graph is graph)
        self._unsorted.update(dict.fromkeys(unsorted))

    def sort(self) -> None:
        """Put the nodes of graphs that may be out of order behind what they use."""
        for graph in self._unsorted:
            if not is_sorted(graph):
                graph.sort()
        self._unsorted.clear()

    def _outwards(self, graph: ir.Graph | None) -> Iterator[ir.Graph]:
        while graph is not None:
            yield graph
            owner = self._owners.get(graph)
            graph = None if owner is None else owner.graph
