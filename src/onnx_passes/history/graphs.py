"""The graphs of a model by number: the main one, functions, and subgraphs of nodes."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from onnx_passes.history.versions import GraphVersion

_GRAPH, _GRAPHS = ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS


@dataclass(slots=True, eq=False)
class LiveGraph:
    """Existing graph, with its nodes if it is not the main one, and its place."""

    version: GraphVersion
    path: tuple[object, ...]
    interface: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    outputs: tuple[ir.Value, ...] = ()
    nodes: dict[ir.Node, None] = field(default_factory=dict[ir.Node, None])


class Graphs:
    """Registry of all existing graph objects, with numbers for all graphs that ever existed."""

    def __init__(self) -> None:
        self.versions: list[GraphVersion] = []
        self._known: dict[ir.Graph, LiveGraph] = {}
        self._numbered: dict[int, LiveGraph] = {}
        self._paths: dict[tuple[object, ...], int] = {}

    def __contains__(self, graph: ir.Graph) -> bool:
        return graph in self._known

    def __getitem__(self, graph: ir.Graph) -> LiveGraph:
        return self._known[graph]

    def roots(self, model: ir.Model) -> Iterator[tuple[ir.Graph, int]]:
        """Yield the main graph and the functions of a model, with their numbers."""
        yield model.graph, self._number(model.graph, ("main",), GraphVersion(0, model.graph.name or ""))
        for identifier, function in model.functions.items():
            name = "::".join(filter(None, identifier))
            yield function.graph, self._number(function.graph, ("function", identifier), GraphVersion(0, name))

    def nested(self, node: ir.Node, number: int) -> Iterator[tuple[str, ir.Graph, int]]:
        """Yield the subgraphs of a node, with their numbers."""
        holder = next((value.name for value in node.outputs if value.name), node.name) or ""
        for attribute in node.attributes.data.values():
            if attribute.type is _GRAPH and not attribute.is_ref():
                graphs: Sequence[ir.Graph] = (attribute.as_graph(),)
            elif attribute.type is _GRAPHS and not attribute.is_ref():
                graphs = attribute.as_graphs()
            else:
                continue
            for position, graph in enumerate(graphs):
                name = f"{attribute.name}[{position}]" if attribute.type is _GRAPHS else attribute.name
                new = GraphVersion(0, graph.name or "", number, holder, name)
                yield name, graph, self._number(graph, (number, holder, name), new)

    def members(self, number: int) -> dict[ir.Node, None]:
        """Return the nodes of a graph other than the main one."""
        return self._numbered[number].nodes

    def keep(self, present: Container[ir.Graph]) -> None:
        """Remove the graphs that no longer exist."""
        self._known = {graph: known for graph, known in self._known.items() if graph in present}

    def drop(self, number: int) -> list[ir.Node]:
        """Remove a graph whose node is gone, and return its nodes."""
        self._known = {graph: known for graph, known in self._known.items() if known.version.number != number}
        return list(self._numbered[number].nodes)

    def _number(self, graph: ir.Graph, path: tuple[object, ...], new: GraphVersion) -> int:
        """Return the number of a graph; a replacement keeps the number."""
        known = self._known.get(graph)
        if known is None:
            number = self._paths.get(path)
            if number is None:
                number = new.number = len(self.versions)
                self.versions.append(new)
                self._numbered[number] = LiveGraph(new, path)
            known = self._known[graph] = self._numbered[number]
        elif known.path != path and self._paths.get(known.path) == known.version.number:
            del self._paths[known.path]
        known.path = path
        self._paths[path] = known.version.number
        return known.version.number
