"""Give every value and node a unique name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import ALL
from onnx_passes.core.walk import all_graphs
from onnx_passes.graph import annotations
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass


@passes.verify.equality
@passes.register(tags=("cleanup",))
class UniqueNames(EditorPass):
    """Make the names of values and nodes unique over a graph and its subgraphs, and over each function.

    Rewrites: the first value with a name keeps it, later ones get a number: ``t, t → t, t_1``; unnamed nodes are named
              after their operator; quantization annotations follow the tensors that they refer to.
    Refuses:  to rename inputs and outputs of the model or of a function.
    Exactness: bit-exact.
    """

    functions = True
    preserves = ALL

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Rename in the graph with its subgraphs, or in a function."""
        renaming = _Renaming(editor)
        values = [renaming.values_of(graph) for graph in renaming.graphs]
        if any(values):
            nodes = [node for renamed in values for value in renamed if (node := value.producer()) is not None]
            editor.change("values without a name of their own", nodes, lambda: renaming.rename_values(values))
        nodes = renaming.nodes_without_own_name()
        if nodes:
            editor.change("nodes without a name of their own", list(nodes), lambda: _rename_nodes(nodes))


class _Renaming:
    def __init__(self, editor: Editor) -> None:
        self.graphs: list[ir.Graph] = [editor.graph, *all_graphs(editor.graph)]
        self.names = editor.scope.names
        self.interface = {*editor.graph.inputs, *editor.graph.outputs}
        self.taken = {value.name for value in self.interface}

    def values_of(self, graph: ir.Graph) -> dict[ir.Value, str]:
        """Return new names for values that clash with an earlier one."""
        renamed: dict[ir.Value, str] = {}
        for value in dict.fromkeys(
            (*graph.inputs, *graph.initializers.values(), *(v for node in graph for v in node.outputs))
        ):
            old = value.name
            if value in self.interface or not (old or value.uses()):
                continue
            if old and old not in self.taken:
                self.taken.add(old)
            else:
                renamed[value] = self.names.value(old or _wish(value))
        return renamed

    def rename_values(self, renamed: Sequence[Mapping[ir.Value, str]]) -> None:
        # Inner scopes first: an annotation refers to the nearest tensor with that name.
        for graph, names in reversed(list(zip(self.graphs, renamed, strict=True))):
            if names:
                references = {value.name or "": name for value, name in names.items()}
                for value, name in names.items():
                    value.name = name
                annotations.rename_references(graph, references)

    def nodes_without_own_name(self) -> dict[ir.Node, str]:
        """Return new names for nodes without a name or with the name of an earlier one."""
        taken: set[str] = set()
        renamed: dict[ir.Node, str] = {}
        for node in (node for graph in self.graphs for node in graph):
            if not node.name or node.name in taken:
                renamed[node] = self.names.node(node.name or node.op_type)
            taken.add(renamed.get(node) or node.name or "")
        return renamed


def _rename_nodes(renamed: Mapping[ir.Node, str]) -> None:
    for node, name in renamed.items():
        node.name = name


def _wish(value: ir.Value) -> str:
    node = value.producer()
    return "input" if node is None else f"{node.op_type}_output"
