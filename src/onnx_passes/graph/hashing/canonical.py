"""Canonical numbering of the nodes of a graph by wiring alone, independent of names and order.

A walk back from the outputs, input by input, visits every node that reaches an output in an order that depends only
on the wiring: that order is the number. Nodes that reach no output have no such order; they are kept separate, and
distinguished by the colours of :mod:`onnx_passes.graph.hashing.dead_nodes`.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from onnx_passes.core.errors import ModelError
from onnx_passes.graph.hashing.content import subgraphs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import onnx_ir as ir

Reference: TypeAlias = "int | tuple[int, int] | None"


class Holder(NamedTuple):
    """The node, attribute and position that hold a nested graph."""

    node: ir.Node
    attribute: str
    position: int


class Numbering:
    """The numbering of a graph with all nested graphs.

    ``nodes`` and ``leaves`` (graph inputs, initializers, outer values) are numbered in the order of the walk, producers
    first, nested nodes before the node that holds them; ``graphs`` in the order of entry, with 0 for the outermost.
    ``dead_nodes`` reach no output, ``dead_leaves`` are read by no other nodes: producers come first, otherwise their
    order is arbitrary. Raises ModelError for a graph with a cycle.
    """

    def __init__(self, graph: ir.Graph) -> None:
        self.graph = graph
        self.nodes: dict[ir.Node, int] = {}
        self.leaves: dict[ir.Value, int] = {}
        self.graphs: dict[ir.Graph, int] = {}
        self.dead_nodes: dict[ir.Node, int] = {}
        self.dead_leaves: dict[ir.Value, int] = {}
        self.holders: dict[ir.Graph, Holder | None] = {}
        self.held: dict[ir.Node, tuple[ir.Graph, ...]] = {}
        self._walk_live()
        self._walk_dead()

    def reference(self, value: ir.Value | None) -> Reference:
        """Return the reference of a live value: its producer and output index, or a negative number for a leaf."""
        if value is None:
            return None
        leaf = self.leaves.get(value)
        if leaf is not None:
            return -1 - leaf
        producer, index = value.producer(), value.index()
        assert producer is not None
        return (self.nodes[producer], index) if index else self.nodes[producer]

    def _walk_live(self) -> None:
        walk = _Walk(self, self.nodes, self.leaves)
        walk.enter(self.graph, None)
        walk.visit(self.graph.outputs)
        self.graphs.update((graph, number) for number, graph in enumerate(self.holders))

    def _walk_dead(self) -> None:
        walk = _Walk(self, self.dead_nodes, self.dead_leaves)
        unread = list(self.holders)
        while unread:
            already_entered = len(self.holders)
            for graph in unread:
                for node in graph:
                    if node not in self.nodes and node not in self.dead_nodes:
                        walk.start(node)
                for value in graph.initializers.values():
                    walk.meet(value)
            unread = list(self.holders)[already_entered:]


class _Walk:
    """A depth-first walk to producers that fills two tables in postorder."""

    def __init__(self, layout: Numbering, nodes: dict[ir.Node, int], leaves: dict[ir.Value, int]) -> None:
        self._layout = layout
        self._nodes = nodes
        self._leaves = leaves
        self._open: dict[ir.Node, None] = {}

    def enter(self, graph: ir.Graph, holder: Holder | None) -> None:
        self._layout.holders[graph] = holder
        for value in graph.inputs:
            self.meet(value)

    def meet(self, leaf: ir.Value) -> None:
        if leaf not in self._layout.leaves and leaf not in self._leaves:
            self._leaves[leaf] = len(self._leaves)

    def start(self, node: ir.Node) -> None:
        self._open[node] = None
        self._run([(node, self._needs(node))])

    def visit(self, values: Iterable[ir.Value]) -> None:
        self._run([(None, iter(values))])

    def _run(self, stack: list[tuple[ir.Node | None, Iterator[ir.Value]]]) -> None:
        live, done, opened, known = self._layout.nodes, self._nodes, self._open, self._layout.holders
        while stack:
            node, pending = stack[-1]
            for value in pending:
                producer = value.producer()
                if producer in done or producer in live:
                    continue
                if producer is None or producer.graph not in known:
                    self.meet(value)
                    continue
                if producer in opened:
                    raise self._cycle(producer)
                opened[producer] = None
                stack.append((producer, self._needs(producer)))
                break
            else:
                stack.pop()
                if node is not None:
                    del opened[node]
                    done[node] = len(done)

    def _needs(self, node: ir.Node) -> Iterator[ir.Value]:
        inputs = filter(None, node.inputs)
        held = subgraphs(node) if node.attributes.data else ()
        if not held:
            return inputs
        for attribute, position, graph in held:
            self.enter(graph, Holder(node, attribute, position))
        self._layout.held[node] = tuple(graph for _, _, graph in held)
        return chain(inputs, *(graph.outputs for _, _, graph in held))

    def _cycle(self, first: ir.Node) -> ModelError:
        nodes = list(self._open)
        shown = [f"{node.op_type} '{node.name}'" for node in reversed(nodes[nodes.index(first) :])]
        if len(shown) > 6:
            shown[3:-2] = ["…"]
        return ModelError(
            f"the graph has a cycle: {' → '.join([*shown, shown[0]])}",
            where=f"graph '{self._layout.graph.name}'",
            hint="a node may not depend on its own output",
        )
