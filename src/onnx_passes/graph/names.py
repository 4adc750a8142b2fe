"""Unique names: all values and nodes of a model and its subgraphs share one namespace."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from onnx_passes.core.walk import all_graphs

Container = ir.Graph | ir.Function


class Names:
    """The names in use, and a source of new unique ones."""

    def __init__(self, values: Iterable[str] = (), nodes: Iterable[str] = ()) -> None:
        self._values = set(values)
        self._nodes = set(nodes)
        self._next: dict[str, int] = {}

    @classmethod
    def of(cls, container: Container) -> Names:
        """Collect the names of a graph or function with all its subgraphs."""
        names = cls()
        for graph in (container, *all_graphs(container)):
            names._values.update(value.name for value in graph.inputs if value.name)
            if isinstance(graph, ir.Graph):
                names._values.update(graph.initializers)
            for node in graph:
                names._values.update(output.name for output in node.outputs if output.name)
                if node.name:
                    names._nodes.add(node.name)
        return names

    def value(self, wish: str) -> str:
        """Claim a name for a value: the preferred one if it is free, else with a number appended."""
        return self._claim(wish, self._values)

    def node(self, wish: str) -> str:
        """Claim a name for a node."""
        return self._claim(wish, self._nodes)

    def _claim(self, wish: str, taken: set[str]) -> str:
        name = wish
        while name in taken:
            number = self._next.get(wish, 0) + 1
            self._next[wish] = number
            name = f"{wish}_{number}"
        taken.add(name)
        return name
