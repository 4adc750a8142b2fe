"""Distinguish the nodes that reach no output by their operands and consumers.

Two dead nodes have the same colour if nothing in their surroundings distinguishes them. Colours are digests,
equal in every process and for every order of the nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, cast

from onnx_passes.graph.hashing.content import Contents, Key, digest, present_inputs, subgraphs

if TYPE_CHECKING:
    import onnx_ir as ir

    from onnx_passes.graph.hashing.canonical import Numbering

Colours: TypeAlias = "dict[ir.Node | ir.Value, bytes]"

# Each round extends the neighbourhood; a fixed limit keeps the cost linear, and equal graphs take equal rounds.
_ROUNDS = 8


def dead_colours(layout: Numbering, contents: Contents) -> Colours:
    """Return the colours of the dead nodes and dead leaves of a graph."""
    refinement = _Refinement(layout, contents)
    count = len(set(refinement.colours.values()))
    for _ in range(_ROUNDS):
        refinement.look_at_producers()
        refinement.look_at_consumers()
        previous, count = count, len(set(refinement.colours.values()))
        if count == previous:
            break
    return refinement.colours


class _Refinement:
    def __init__(self, layout: Numbering, contents: Contents) -> None:
        self._layout = layout
        self._positions = {
            value: position
            for graph in layout.holders
            if graph not in layout.graphs
            for position, value in enumerate(graph.inputs)
        }
        self.colours: Colours = {}
        for node in layout.dead_nodes:
            self.colours[node] = digest(contents.node(node), _repetitions(node))
        for value in layout.dead_leaves:
            self.colours[value] = digest(self._leaf(value, contents))
        self._held_outputs = self._find_held_outputs()

    def look_at_producers(self) -> None:
        """Mix the colours of all operands into every colour."""
        old, new = self.colours, cast("Colours", {})
        for value in self._layout.dead_leaves:
            new[value] = digest(old[value], self._home(value.graph))
        for node in self._layout.dead_nodes:
            inputs = tuple(self._colour(value, new) for value in present_inputs(node))
            outputs = tuple(
                (attribute, index, *(self._colour(value, new) for value in graph.outputs))
                for attribute, index, graph in subgraphs(node)
            )
            new[node] = digest(old[node], self._home(node.graph), inputs, outputs)
        self.colours = new

    def look_at_consumers(self) -> None:
        """Mix the colours of all consumers into every colour."""
        old, new = self.colours, cast("Colours", {})
        for node in reversed(self._layout.dead_nodes):
            readers = tuple(self._readers(value, new) for value in node.outputs)
            while readers and not readers[-1]:
                readers = readers[:-1]
            new[node] = digest(old[node], self._home(node.graph), readers)
        for value in self._layout.dead_leaves:
            new[value] = digest(old[value], self._home(value.graph), self._readers(value, new))
        self.colours = {element: new[element] for element in old}

    def _leaf(self, value: ir.Value, contents: Contents) -> Key:
        """Return the key of a dead leaf by itself."""
        held = value.is_initializer() and value.graph in self._layout.holders
        content = contents.initial_value(value) if held else None
        if value in self._positions:
            return ("input", self._positions[value], held, content)
        return ("initializer", content) if held else ("outside", value.name)

    def _home(self, graph: ir.Graph | None) -> Key:
        """Return the number of a live graph, or the colour of the dead node that holds it."""
        number = self._layout.graphs.get(graph) if graph is not None else None
        if number is not None:
            return number
        holder = self._layout.holders.get(graph) if graph is not None else None
        return None if holder is None else (self.colours[holder.node], holder.attribute, holder.position)

    def _colour(self, value: ir.Value | None, colours: Colours) -> Key:
        if value is None:
            return None
        if value in self._layout.dead_leaves:
            return colours[value]
        producer = value.producer()
        if producer in self._layout.dead_nodes:
            return (colours[producer], value.index())
        return self._layout.reference(value)

    def _readers(self, value: ir.Value, colours: Colours) -> Key:
        dead = self._layout.dead_nodes
        readers: list[Key] = [(colours[node], index) for node, index in value.uses() if node in dead]
        for node, *position in self._held_outputs.get(value, ()):
            readers.append((colours[node], *position))
        return tuple(sorted(readers, key=repr))

    def _find_held_outputs(self) -> dict[ir.Value, list[tuple[ir.Node, str, int, int]]]:
        """Return the positions in which each output of a graph inside a dead node is returned."""
        found: dict[ir.Value, list[tuple[ir.Node, str, int, int]]] = {}
        for node in self._layout.dead_nodes:
            for attribute, index, graph in subgraphs(node):
                for position, value in enumerate(graph.outputs):
                    found.setdefault(value, []).append((node, attribute, index, position))
        return found


def _repetitions(node: ir.Node) -> tuple[int, ...]:
    """Return for each input the first position of the same value, which colours of inputs do not determine."""
    first: dict[ir.Value | None, int] = {}
    return tuple(first.setdefault(value, position) for position, value in enumerate(present_inputs(node)))
