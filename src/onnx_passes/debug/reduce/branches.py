"""Branches of If nodes, moved out to where the node stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.edits import detach, replace_value
from onnx_passes.graph.names import Names

Branch = tuple[int, str]
"""The position of an If node in its graph, and the attribute that holds a branch."""
BRANCHES = ("then_branch", "else_branch")


def branching(model: ir.Model) -> list[tuple[int, ir.Node]]:
    """List the If nodes of a model's graph, with their positions."""
    return [(at, node) for at, node in enumerate(model.graph) if (node.domain, node.op_type) == ("", "If")]


def taken_branches(model: ir.Model, values: Mapping[str, Sequence[np.ndarray[Any, np.dtype[Any]]]]) -> list[Branch]:
    """List the branches that every sample takes, as far as conditions are known."""
    taken: list[Branch] = []
    for at, node in branching(model):
        condition = node.inputs[0]
        seen = values.get(condition.name or "", ()) if condition is not None else ()
        constant = condition.const_value if condition is not None else None
        truths = {bool(array.all()) for array in seen}
        if not truths and constant is not None:
            truths = {bool(constant.numpy().all())}
        if len(truths) == 1:
            taken.append((at, BRANCHES[0] if truths.pop() else BRANCHES[1]))
    return taken


def hoisted(model: ir.Model, branches: Sequence[Branch]) -> None:
    """Put branches in the place of their If nodes, keeping names where they are free."""
    graph = model.graph
    nodes, names = list(graph), Names.of(model.graph)
    for at, name in branches:
        node = nodes[at]
        others = [node.attributes[key].as_graph() for key in BRANCHES if key != name and key in node.attributes]
        branch = node.attributes[name].as_graph()
        for other in others:
            for inner in other.all_nodes():
                detach(inner)
        _move(graph, node, branch, names)


def _move(graph: ir.Graph, node: ir.Node, branch: ir.Graph, names: Names) -> None:
    outputs = list(branch.outputs)
    branch.outputs.clear()
    initializers = list(branch.initializers.values())
    branch.initializers.clear()
    for value in initializers:
        if value.name in graph.initializers:
            value.name = names.value(value.name or "")
        graph.initializers.add(value)
    inner = list(branch)
    branch.remove(inner)
    graph.insert_before(node, inner)
    for old, new in zip(node.outputs, outputs, strict=True):
        replace_value(old, new, names)
    graph.remove(node, safe=True)
