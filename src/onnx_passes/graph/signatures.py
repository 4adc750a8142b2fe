"""Signatures of nodes by their producers and by their consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from onnx_passes.graph.hashing.canonical import Holder, Numbering
from onnx_passes.graph.hashing.content import Contents, present_inputs

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence

    import onnx_ir as ir

Labels: TypeAlias = "Mapping[ir.Value, Sequence[int]]"


class KeyNumbers:
    """Small numbers for keys: equal keys get equal numbers, also across graphs."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def __call__(self, *key: Hashable) -> int:
        """Return the number of a key."""
        return self._numbers.setdefault(key, len(self._numbers))


class ValueUse(NamedTuple):
    """A use of a value: an input of a node, an output of a graph inside a node, or an output of the graph itself.

    ``reader`` is None for the outermost graph; ``position`` is then the number by which outputs are paired.
    """

    reader: ir.Node | None
    graph: int | None
    position: int


class Signatures:
    """The nodes of a graph, producers first, with signatures ``up`` of their producers and ``down`` of their consumers.

    ``inputs`` and ``outputs`` number the interface values that correspond across graphs.
    """

    def __init__(
        self, graph: ir.Graph, contents: Contents, numbers: KeyNumbers, inputs: Labels, outputs: Labels
    ) -> None:
        self.graph = graph
        self._layout = Numbering(graph)
        self._contents = contents
        self._number = numbers
        self._inputs = inputs
        self.order = [*self._layout.nodes, *self._layout.dead_nodes]
        self.keys = {node: numbers(contents.node(node)) for node in self.order}
        self.constants = [
            value
            for nested in self._layout.holders
            for value in nested.initializers.values()
            if not value.is_graph_input()
        ]
        self._homes = self._number_homes()
        self._positions = {
            value: position
            for nested, holder in self._layout.holders.items()
            if holder is not None
            for position, value in enumerate(nested.inputs)
        }
        self._outputs = {number: value for value, numbers in outputs.items() for number in numbers}
        self._given = self._find_given()
        self.up: dict[ir.Node, int] = {}
        self.down: dict[ir.Node, int] = {}
        self._look_up()
        self._look_down()

    def producer(self, value: ir.Value | None) -> ir.Node | None:
        """Return the node of this graph that computes a value; None if there is none."""
        producer = value.producer() if value is not None else None
        return producer if producer in self.keys else None

    def readers(self, value: ir.Value) -> list[tuple[ir.Node, int]]:
        """Return the nodes of this graph that read a value, each with the position of the input."""
        return [(node, position) for node, position in value.uses() if node in self.keys]

    def places(self, value: ir.Value) -> Iterator[ValueUse]:
        """Yield all uses of a value."""
        for node, position in self.readers(value):
            yield ValueUse(node, None, position)
        yield from self._given.get(value, ())

    def source(self, place: ValueUse | None) -> ir.Value | None:
        """Return the value that is read at a place; None if this graph lacks the place."""
        if place is None:
            return None
        if place.reader is None:
            return self._outputs.get(place.position)
        if place.graph is None:
            values = place.reader.inputs
        else:
            graphs = self.held(place.reader)
            values = graphs[place.graph].outputs if place.graph < len(graphs) else ()
        return values[place.position] if place.position < len(values) else None

    def neighbours(self, node: ir.Node) -> Iterator[ir.Node]:
        """Yield the producers, consumers and holder of a node, and the producers of outputs of its graphs."""
        for value in (*node.inputs, *(value for graph in self.held(node) for value in graph.outputs)):
            producer = self.producer(value)
            if producer is not None:
                yield producer
        for value in node.outputs:
            for place in self.places(value):
                if place.reader is not None:
                    yield place.reader
        holder = self.holder(node)
        if holder is not None:
            yield holder.node

    def held(self, node: ir.Node) -> tuple[ir.Graph, ...]:
        """Return the graphs in a node."""
        return self._layout.held.get(node, ())

    def holder(self, node: ir.Node) -> Holder | None:
        """Return the node that holds the graph of a node, and the position of that graph."""
        return self._layout.holders.get(node.graph) if node.graph is not None else None

    def is_constant(self, value: ir.Value | None) -> bool:
        """Return whether a value is an initializer of this graph that a caller cannot override."""
        if value is None or not value.is_initializer() or value.is_graph_input():
            return False
        return value.graph in self._layout.holders

    def constants_of(self, node: ir.Node) -> list[ir.Value]:
        """Return the initializers that a node reads."""
        return [value for value in node.inputs if value is not None and self.is_constant(value)]

    def is_outside(self, value: ir.Value) -> bool:
        """Return whether a value is neither computed nor held in this graph."""
        if self.producer(value) is not None:
            return False
        owned = value.is_graph_input() or value.is_initializer()
        return not (owned and value.graph in self._layout.holders)

    def _number_homes(self) -> dict[ir.Graph, int]:
        homes: dict[ir.Graph, int] = {}
        for graph, holder in self._layout.holders.items():
            outer = holder.node.graph if holder is not None else None
            path = (holder.attribute, holder.position) if holder is not None else ()
            homes[graph] = self._number("home", homes[outer] if outer is not None else None, path)
        return homes

    def _home(self, node: ir.Node) -> int | None:
        return self._homes[node.graph] if node.graph is not None else None

    def _look_up(self) -> None:
        for node in self.order:
            inputs = tuple(self._source(value) for value in present_inputs(node))
            held = tuple(tuple(map(self._source, graph.outputs)) for graph in self.held(node))
            self.up[node] = self._number("up", self.keys[node], self._home(node), inputs, held)

    def _source(self, value: ir.Value | None) -> Hashable:
        if value is None:
            return None
        producer = value.producer()
        if producer in self.keys:
            # In an invalid graph, a nested node may read a result of its holder, which is ignored.
            return (self.up.get(producer), value.index())
        if value in self._inputs:
            return ("input", *self._inputs[value])
        if value in self._positions:
            return ("nested", self._positions[value])
        if self.is_constant(value):
            return ("constant", self._contents.initial_value(value))
        return ("outside", value.name)

    def _find_given(self) -> dict[ir.Value, list[ValueUse]]:
        """Return the places of each value that is an output of a graph."""
        given: dict[ir.Value, list[ValueUse]] = {}
        for number, value in self._outputs.items():
            given.setdefault(value, []).append(ValueUse(None, None, number))
        for node, graphs in self._layout.held.items():
            for number, nested in enumerate(graphs):
                for position, value in enumerate(nested.outputs):
                    given.setdefault(value, []).append(ValueUse(node, number, position))
        return given

    def _look_down(self) -> None:
        for node in reversed(self.order):
            uses = [self._uses(value) for value in node.outputs]
            while uses and not uses[-1]:
                uses.pop()
            self.down[node] = self._number("down", self.keys[node], self._home(node), tuple(uses))

    def _uses(self, value: ir.Value) -> tuple[int, ...]:
        uses = [
            self._number("use", self.down.get(reader) if reader is not None else None, graph, position)
            for reader, graph, position in self.places(value)
        ]
        return tuple(sorted(uses))
