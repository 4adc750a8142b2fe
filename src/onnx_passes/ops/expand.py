"""Custom operators in terms of standard ones: for an engine that does not know them, and for good."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.core.walk import all_graphs
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.encode import Expand
from onnx_passes.graph.wording import name_of
from onnx_passes.ops.definition import Definition, definition_of


def expander(defined: Collection[ir.OperatorIdentifier] = (), *, fast: bool = True) -> Expand:
    """Make a function that builds what stands for a node, or nothing for nodes that need nothing.

    Operators in ``defined`` are left alone: the model has a function for them. The last node that is built has the
    output of the original; discard the builder when done with it.
    """

    def expand(node: ir.Node, imports: Mapping[str, int]) -> Builder | None:
        if not node.domain or node.op_identifier() in defined:
            return None
        definition = definition_of(node)
        return None if definition is None else _expansion(definition, node, imports, fast=fast)

    return expand


def _expansion(definition: Definition, node: ir.Node, imports: Mapping[str, int], *, fast: bool) -> Builder:
    op = Builder(imports, initializers_allowed=False)
    try:
        call = definition.call(node)
        result = definition.fast(op, call) if fast else definition.lower(op, call)
    except ModelError as error:
        op.discard()
        error.where = error.where or name_of(node)
        raise
    if result.producer() not in op.nodes:
        result = op.Identity(result)
    op.keep_only([result])
    name = node.outputs[0].name
    for number, value in enumerate(output for built in op.nodes for output in built.outputs):
        value.name = name if value is result else f"{name}::{number}"
    return op


def expand_nodes(model: ir.Model) -> int:
    """Replace, in place, all nodes of operators that are defined here by standard ones; returns how many it were."""
    expand = expander(model.functions, fast=False)
    count = 0
    for graph in (model.graph, *model.functions.values()):
        for scope in (graph, *all_graphs(graph)):
            imports = model.opset_imports if isinstance(graph, ir.Graph) else graph.opset_imports
            for node in tuple(scope):
                built = expand(node, imports)
                if built is not None:
                    imports.update(
                        (domain, version or 1) for domain, version in built.opsets.items() if domain not in imports
                    )
                    _replace(scope, node, built)
                    count += 1
    return count


def _replace(scope: ir.Graph | ir.Function, node: ir.Node, built: Builder) -> None:
    old, new = node.outputs[0], built.nodes[-1].outputs[0]
    new.type, new.shape = new.type or old.type, old.shape
    scope.insert_before(node, built.nodes)
    old.replace_all_uses_with(new, replace_graph_outputs=True)
    scope.remove(node, safe=True)


def uses_custom_operators(graph: ir.Graph | ir.Function) -> bool:
    """Tell whether a node, in the graph or a subgraph, is of an operator that is defined here."""
    return any(
        node.domain and definition_of(node) is not None for scope in (graph, *all_graphs(graph)) for node in scope
    )
