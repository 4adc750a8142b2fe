"""Sort nodes so that producers come before consumers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import ALL
from onnx_passes.core.errors import ModelError
from onnx_passes.core.walk import all_graphs
from onnx_passes.graph.edits import subgraphs_of
from onnx_passes.graph.wording import name_of
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass


@passes.verify.equality
@passes.register(tags=("cleanup",))
class TopologicalSort(EditorPass):
    """Sort the nodes of all graphs and functions topologically: producers before consumers.

    Rewrites: ``b = Relu(a); a = Abs(x)`` → ``a = Abs(x); b = Relu(a)``; sorted graphs stay.
    Refuses:  a graph with a cycle, naming the nodes on it.
    Exactness: bit-exact.
    """

    functions = True
    preserves = ALL

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Sort the graph, its subgraphs and the functions."""
        sort_nodes(editor)


def sort_nodes(editor: Editor) -> None:
    """Sort a graph and its subgraphs, or a function."""
    for graph in (editor.graph, *all_graphs(editor.graph)):
        order = _sorted(graph)
        moved = [a for a, b in zip(graph, order, strict=True) if a is not b]
        if moved:
            editor.change("nodes in topological order", moved, partial(graph.extend, order))


def _sorted(graph: ir.Graph) -> list[ir.Node]:
    """Visit the nodes in order, each after the producers of its inputs (depth first, stable)."""
    order: dict[ir.Node, None] = {}
    for start in graph:
        way = {} if start in order else {start: _producers(start)}
        while way:
            node, pending = next(reversed(way.items()))
            producer = next((p for p in pending if p not in order), None)
            if producer is None:
                del way[node]
                order[node] = None
            elif producer in way:
                raise _cycle(graph, list(way), producer)
            else:
                way[producer] = _producers(producer)
    return list(order)


def _producers(node: ir.Node) -> Iterator[ir.Node]:
    """Yield the nodes of the same graph whose results a node or its subgraphs read."""
    yield from _direct_producers(node, node.graph)
    for graph in subgraphs_of(node):
        for inner in graph.all_nodes():
            yield from _direct_producers(inner, node.graph)


def _direct_producers(node: ir.Node, graph: ir.Graph | None) -> Iterator[ir.Node]:
    for value in node.inputs:
        producer = None if value is None else value.producer()
        if producer is not None and producer.graph is graph:
            yield producer


def _cycle(graph: ir.Graph, way: list[ir.Node], first: ir.Node) -> ModelError:
    shown = [name_of(node) for node in reversed(way[way.index(first) :])]
    if len(shown) > 6:
        shown[3:-2] = ["…"]
    return ModelError(
        f"the graph has a cycle: {' → '.join([*shown, shown[0]])}",
        where=f"graph '{graph.name}'",
        hint="a node may not depend on its own output",
    )
