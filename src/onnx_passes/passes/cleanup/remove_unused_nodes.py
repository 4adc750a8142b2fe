"""Remove nodes and initializers that no output depends on."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import PassResult, Transformation
from onnx_passes.graph import annotations
from onnx_passes.graph.edits import detach, subgraphs_of


@passes.verify.equality
@passes.register(tags=("cleanup",))
class RemoveUnusedNodes(Transformation):
    """Remove nodes and initializers that no output depends on, in graphs, subgraphs and functions.

    Rewrites: ``y = Relu(x); z = Abs(x)`` → ``y = Relu(x)``, if ``z`` is neither read nor an output.
    Refuses:  graph inputs and outputs; what the quantization annotation of a remaining value refers to;
              single outputs of a node that is needed for others.
    Exactness: bit-exact.
    """

    preserves = ("checker", "lift-constants", "shape-inference", "topological-sort", "unique-names")

    def call(self, model: ir.Model) -> PassResult:
        """Sweep the graph and every function."""
        modified = False
        for scope in (model.graph, *(function.graph for function in model.functions.values())):
            modified |= _sweep(_Live(scope))
        return PassResult(model, modified)


class _Live:
    """What the outputs of a graph depend on: values, nodes, and the graphs that hold them."""

    def __init__(self, scope: ir.Graph) -> None:
        self.values: set[ir.Value] = set()
        self.nodes: set[ir.Node] = set()
        self.graphs: list[ir.Graph] = [scope]
        referenced = annotations.referenced_names(scope)
        self._referenced = {v.name: v for v in annotations.values(scope) if v.name in referenced} if referenced else {}
        self._mark([*scope.inputs, *scope.outputs])

    def _mark(self, waiting: list[ir.Value]) -> None:
        while waiting:
            value = waiting.pop()
            if value in self.values:
                continue
            self.values.add(value)
            if self._referenced:
                waiting.extend(self._annotated_with(value))
            node = value.producer()
            if node is not None and node not in self.nodes:
                self.nodes.add(node)
                waiting.extend(filter(None, node.inputs))
                waiting.extend(node.outputs)
                for graph in subgraphs_of(node):
                    self.graphs.append(graph)
                    waiting.extend((*graph.inputs, *graph.outputs))

    def _annotated_with(self, value: ir.Value) -> Iterable[ir.Value]:
        texts = annotations.get(value).values()
        return (self._referenced[text] for text in texts if text in self._referenced)


def _sweep(live: _Live) -> bool:
    modified = False
    # Inner graphs first, so that nothing in them still reads what is removed from outer ones.
    for graph in reversed(live.graphs):
        dead = [node for node in graph if node not in live.nodes]
        for node in dead:
            for inner in (inner for subgraph in subgraphs_of(node) for inner in subgraph.all_nodes()):
                detach(inner)
        if dead:
            graph.remove(dead, safe=True)
        unused = [name for name, value in graph.initializers.items() if value not in live.values]
        for name in unused:
            del graph.initializers[name]
        modified |= bool(dead or unused)
    return modified
