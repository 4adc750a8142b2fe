"""Inline the only possible branch of an If."""

from __future__ import annotations

from collections import Counter

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.walk import all_nodes, nested_graphs
from onnx_passes.graph import annotations
from onnx_passes.graph.constants import constant
from onnx_passes.graph.edits import copy_type, remove_if_dead, replace_value
from onnx_passes.passes.fold.refused_branches import remaining_branch
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass

_RULE = "If with one branch left"


@passes.verify.equality
@passes.register(tags=("fold", "constants"))
class FoldIf(EditorPass):
    """Inline the only branch of an If that a model can take.

    Rewrites: ``y = If (true) <then_branch = … {r = Relu (x)}, …>`` → ``y = Relu (x)``, also where the condition is
              computed, but a recurrent layer or a convolution refuses the rank that the other branch returns; the
              results keep the names, types and annotations that they have at the If, and the nodes inherit its
              metadata.
    Refuses:  other conditions that are computed or that a caller may override; function bodies.
    Exactness: bit-exact on all inputs that the model takes; others may be refused by another operator, or by none.
    """

    needs = ("shape-inference",)
    preserves = ("checker", "shape-inference", "topological-sort", "unique-names")

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Fold in the graph and all its subgraphs."""
        inline_branches(editor)


def inline_branches(editor: Editor) -> bool:
    """Inline every If with one possible branch, including those inside inlined branches; return whether any was."""
    before = editor.applied
    decided: list[ir.Node] = []
    for node in all_nodes(editor.graph):
        if node.op_type != "If" or node.domain != "":
            continue
        branch = _taken(node)
        if branch is None:
            editor.refuse(_RULE, "its condition is computed", node, at=node.inputs[0] if node.inputs else None)
        elif isinstance(editor.scope.container, ir.Function) and branch.initializers:
            editor.refuse(_RULE, "a function cannot hold the initializers of the branch", node)
        else:
            decided.append(node)
    if decided:
        inlining = _Inlining(editor)
        for node in decided:
            branch = _taken(node)
            # An If inside of a branch that was dropped has lost its condition.
            if branch is not None:
                inlining.inline(node, branch)
    return editor.applied > before


def _taken(node: ir.Node) -> ir.Graph | None:
    if node.op_type != "If" or node.domain != "" or not node.inputs or node.inputs[0] is None:
        return None
    branches = [node.attributes.get(name) for name in ("then_branch", "else_branch")]
    graphs = [branch.as_graph() for branch in branches if branch is not None and not branch.is_ref()]
    if len(graphs) < len(branches):
        return None
    condition = constant(node.inputs[0])
    if condition is not None:
        return graphs[0 if condition.item() else 1] if condition.size == 1 else None
    return remaining_branch(node, graphs)


class _Inlining:
    def __init__(self, editor: Editor) -> None:
        scope = editor.graph
        self.editor = editor
        self.names = editor.scope.names
        self.values = Counter(value.name for value in annotations.values(scope))
        self.nodes = Counter(node.name for node in all_nodes(scope))
        self.kept = annotations.referenced_names(scope)

    def inline(self, node: ir.Node, branch: ir.Graph) -> None:
        pairs = tuple(zip(node.outputs, branch.outputs, strict=False))
        self.editor.change(_RULE, [node], lambda: self._inline(node, branch), replaced=pairs, added=list(branch))

    def _inline(self, node: ir.Node, branch: ir.Graph) -> None:
        graph = node.graph
        assert isinstance(graph, ir.Graph)
        for other in nested_graphs(node):
            if other is not branch:
                self.values.subtract(value.name for value in annotations.values(other))
                self.nodes.subtract(inner.name for inner in all_nodes(other))
        self._make_names_unique(branch)
        for inner in branch:
            for key, text in node.metadata_props.items():
                inner.metadata_props.setdefault(key, text)
        results = list(branch.outputs)
        branch.outputs.clear()
        weights, nodes = list(branch.initializers.values()), list(branch)
        branch.initializers.clear()
        branch.remove(nodes)
        for weight in weights:
            graph.register_initializer(weight)
        graph.insert_before(node, nodes)
        self._take_over(node, results, {*weights, *(value for inner in nodes for value in inner.outputs)})
        remove_if_dead([node], keep=self.kept)

    def _make_names_unique(self, branch: ir.Graph) -> None:
        """Rename values that are also defined elsewhere, as branches may use the same names."""
        renamed: dict[str, str] = {}
        for value in annotations.values(branch):
            if value.name and self.values[value.name] > 1:
                old = value.name
                self.values[old] -= 1
                value.name = renamed[old] = self.names.value(old)
                self.values[value.name] += 1
        for node in all_nodes(branch):
            if node.name and self.nodes[node.name] > 1:
                self.nodes[node.name] -= 1
                node.name = self.names.node(node.name)
                self.nodes[node.name] += 1
        if renamed:
            annotations.rename_references(branch, renamed)
            self.editor.scope.forget_references()

    def _take_over(self, node: ir.Node, results: list[ir.Value], moved: set[ir.Value]) -> None:
        """Replace the results of the If by those of the branch, keeping the names where possible."""
        named: set[ir.Value] = set()
        for old, new in zip(node.outputs, results, strict=False):
            if new in moved and new not in named and new.producer() is not None:
                named.add(new)
                self._adopt(old, new)
            replace_value(old, new, self.names)

    def _adopt(self, old: ir.Value, new: ir.Value) -> None:
        if new.type is None and old.type is not None:
            new.type = copy_type(old.type)
        if old.shape is not None and (new.shape is None or old.is_graph_output()):
            new.shape = old.shape.copy()
        if old.name and not old.is_graph_output():
            wish = old.name
            old.name = self.names.value(f"{wish}_old")
            new.name = wish
