"""Give every value and node a name of its own."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import ALL, PassResult, Transformation
from onnx_passes.core.walk import all_graphs
from onnx_passes.graph import annotations
from onnx_passes.graph.names import Names


@passes.verify.equality
@passes.register(tags=("cleanup",))
class UniqueNames(Transformation):
    """Make the names of values and nodes unique over a graph and its subgraphs, and over each function.

    Rewrites: the first to carry a name keeps it, others get a number: ``t, t → t, t_1``; nodes without a name
              are named after their operator; quantization annotations follow the tensors they refer to.
    Refuses:  to rename inputs and outputs of the model or of a function.
    Exactness: bit-exact.
    """

    preserves = ALL

    def call(self, model: ir.Model) -> PassResult:
        """Rename in the graph with its subgraphs and in each function."""
        modified = False
        for scope in (model.graph, *(function.graph for function in model.functions.values())):
            modified |= _Renaming(scope).run()
        return PassResult(model, modified)


class _Renaming:
    def __init__(self, scope: ir.Graph) -> None:
        self.scope = scope
        self.graphs: list[ir.Graph] = [scope, *all_graphs(scope)]
        self.names = Names.of(scope)
        self.interface = {*scope.inputs, *scope.outputs}
        self.values = {value.name for value in self.interface}
        self.nodes: set[str] = set()

    def run(self) -> bool:
        renamed = [self.rename_values(graph) for graph in self.graphs]
        # Inner scopes first: an annotation refers to the nearest tensor of the name it gives.
        for graph, names in reversed(list(zip(self.graphs, renamed, strict=True))):
            if names:
                annotations.rename_references(graph, names)
        named = [self.rename_nodes(graph) for graph in self.graphs]
        return any(renamed) or any(named)

    def rename_values(self, graph: ir.Graph) -> dict[str, str]:
        """Rename what clashes with an earlier value; returns old and new names."""
        renamed: dict[str, str] = {}
        for value in dict.fromkeys(
            (*graph.inputs, *graph.initializers.values(), *(v for node in graph for v in node.outputs))
        ):
            old = value.name
            if value in self.interface or not (old or value.uses()):
                continue
            if old and old not in self.values:
                self.values.add(old)
                continue
            value.name = self.names.value(old or _wish(value))
            renamed[old or ""] = value.name
        return renamed

    def rename_nodes(self, graph: ir.Graph) -> bool:
        modified = False
        for node in graph:
            if not node.name or node.name in self.nodes:
                node.name = self.names.node(node.name or node.op_type)
                modified = True
            self.nodes.add(node.name)
        return modified


def _wish(value: ir.Value) -> str:
    node = value.producer()
    return "input" if node is None else f"{node.op_type}_output"
