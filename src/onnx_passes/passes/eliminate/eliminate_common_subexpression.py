"""Eliminate common subexpressions."""

from __future__ import annotations

from functools import partial

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.measure import count_bytes
from onnx_passes.core.options import Size, option
from onnx_passes.core.walk import nested_graphs
from onnx_passes.graph import annotations
from onnx_passes.graph.constants import constant_tensor
from onnx_passes.graph.edits import copy_type_and_shape, replace_value
from onnx_passes.graph.hashing.content import Contents, Key, operator, present_inputs
from onnx_passes.graph.randomness import drawing_functions, is_random
from onnx_passes.graph.shapes import is_integral
from onnx_passes.graph.traits import traits_of
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass

_RULE = "the same computation"
_PURE = ("", "ai.onnx.ml")
_JUST_NAMES = ("Identity", "Constant")
_ORDER_MATTERS = ("Max", "Min")


@passes.verify.equality
@passes.register("eliminate")
class EliminateCommonSubexpression(EditorPass):
    """Merge common subexpressions: nodes with the same operator, inputs and attributes.

    Rewrites: ``a = Relu(x); b = Relu(x)`` → ``a = Relu(x)``, used for both. Subgraphs reuse earlier results of
              enclosing graphs. Initializers with identical bits (up to ``max-size``) count as equal, and so do inputs
              of commutative operators in another order, if that is exact.
    Refuses:  random operators, functions that contain them, and operators of unknown domains; nodes with subgraphs;
              different types of attributes (``1`` and ``1.0``), signed zeros and NaN by their bits; different
              quantization annotations of the results; other sets of outputs.
    Exactness: bit-exact.
    """

    functions = True
    needs = ("topological-sort",)
    preserves = ("checker", "lift-constants", "shape-inference", "topological-sort", "unique-names")

    max_size: Size = option(1 << 16, "compare the contents of initializers up to this size")

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Merge in the graph with its subgraphs, or in a function."""
        _Sharing(editor, self.max_size).visit(editor.graph, [])


class _Sharing:
    """One walk over a graph and its subgraphs, with the available results by key."""

    def __init__(self, editor: Editor, max_size: int) -> None:
        self.editor = editor
        self.functions = editor.scope.model.functions
        self.random = drawing_functions(self.functions)
        self.max_size = max_size
        self.contents = Contents()
        self.merged: list[ir.Node] = []
        """Removed nodes, kept alive because keys contain the identities of values."""

    def visit(self, graph: ir.Graph, outer: list[dict[Key, ir.Node]]) -> None:
        """Visit the nodes of a graph in order; ``outer`` holds the available results of enclosing graphs."""
        here: dict[Key, ir.Node] = {}
        known = [here, *outer]
        for node in graph:
            inner = list(nested_graphs(node)) if node.attributes else []
            for subgraph in inner:
                self.visit(subgraph, known)
            if inner or not self.is_pure(node):
                continue
            key = self.key(node)
            same = next((found[key] for found in known if key in found), None)
            if same is None:
                here[key] = node
            elif (reason := self.objection(node, same)) is not None:
                self.editor.refuse(_RULE, reason, node, at=same)
            else:
                pairs = zip(node.outputs, same.outputs, strict=False)
                replaced = [(old, new) for old, new in pairs if old.uses() or old.is_graph_output()]
                self.editor.change(_RULE, [node], partial(self.merge, node, same), replaced=replaced)

    def is_pure(self, node: ir.Node) -> bool:
        if node.domain in _PURE and operator(node) not in self.functions:
            return not is_random(node)
        return operator(node) in self.functions and operator(node) not in self.random

    def key(self, node: ir.Node) -> Key:
        """Return the key of the computation: operator, attributes and inputs."""
        inputs = [self.value_key(value) for value in present_inputs(node)]
        if _is_symmetric(node):
            inputs.sort(key=repr)
        return (self.contents.node(node), tuple(inputs))

    def value_key(self, value: ir.Value | None) -> Key:
        if value is None:
            return None
        tensor = constant_tensor(value) if value.is_initializer() else None
        if tensor is None or count_bytes(tensor) > self.max_size:
            return id(value)
        return self.contents.tensor(tensor)

    def objection(self, node: ir.Node, same: ir.Node) -> str | None:
        if node.op_type in _JUST_NAMES and any(output.is_graph_output() for output in node.outputs):
            return "it names an output"
        for old, new in zip(node.outputs, same.outputs, strict=False):
            mine, theirs = annotations.get(old), annotations.get(new)
            if mine and theirs and mine != theirs:
                return "the results have different quantization annotations"
            if old.name in self.editor.scope.keep:
                return "a quantization annotation refers to its result"
        return None

    def merge(self, node: ir.Node, same: ir.Node) -> None:
        assert node.graph is not None
        for old, new in zip(node.outputs, same.outputs, strict=False):
            copy_type_and_shape(old, new)
            replace_value(old, new, self.editor.scope.names)
        for key, text in node.metadata_props.items():
            same.metadata_props.setdefault(key, text)
        node.graph.remove(node, safe=True)
        self.merged.append(node)


def _is_symmetric(node: ir.Node) -> bool:
    """Return whether swapping the inputs is bit-exact."""
    if node.domain or not traits_of(node).commutative:
        return False
    return is_integral(node.inputs[0]) or (len(node.inputs) == 2 and node.op_type not in _ORDER_MATTERS)
