"""The parts of a graph on which its outputs depend."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from onnx_passes.graph import annotations
from onnx_passes.graph.edits import subgraphs_of


class LiveParts:
    """The values and nodes that reach an output of a graph, and the graphs that hold them.

    With ``kept``, everything counts that must stay for the interface and annotations: the inputs of the graph, all
    results of a live node, and tensors to which the quantization annotation of such a value refers.
    """

    def __init__(self, scope: ir.Graph, *, kept: bool = False) -> None:
        self._kept = kept
        self.values: set[ir.Value] = set()
        self.nodes: set[ir.Node] = set()
        self.graphs: list[ir.Graph] = [scope]
        named = annotations.referenced_names(scope) if kept else set[str]()
        self._named = {value.name: value for value in annotations.values(scope) if value.name in named} if named else {}
        self._mark([*scope.outputs, *(scope.inputs if kept else ())])

    def cut_off(self) -> Iterator[ir.Node]:
        """Yield the nodes that reach no output; of nested ones only the outermost."""
        for graph in self.graphs:
            yield from (node for node in graph if node not in self.nodes)

    def _mark(self, waiting: list[ir.Value]) -> None:
        while waiting:
            value = waiting.pop()
            if value in self.values:
                continue
            self.values.add(value)
            if self._named:
                waiting.extend(self._named[text] for text in annotations.get(value).values() if text in self._named)
            node = value.producer()
            if node is None or node in self.nodes:
                continue
            self.nodes.add(node)
            waiting.extend(value for value in node.inputs if value is not None)
            if self._kept:
                waiting.extend(node.outputs)
            for graph in subgraphs_of(node):
                self.graphs.append(graph)
                waiting.extend((*graph.outputs, *(graph.inputs if self._kept else ())))
