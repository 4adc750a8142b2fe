"""Safe edits, which keep the interface, the annotations and the order of a graph intact."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, cast

import onnx_ir as ir

from onnx_passes.core.walk import all_nodes, holds_graphs, nested_graphs
from onnx_passes.graph import annotations
from onnx_passes.graph.constants import is_constant_node
from onnx_passes.graph.names import Names


def copy_type_and_shape(source: ir.Value, target: ir.Value) -> None:
    """Set the missing type and shape of a value to copies of those of another."""
    if target.type is None and source.type is not None:
        target.type = copy_type(source.type)
    if target.shape is None and source.shape is not None:
        target.shape = source.shape.copy()


def copy_type(type_: ir.TypeProtocol) -> ir.TypeProtocol:
    """Return a copy of a type, as clones of a model share types, and changing a dtype would change both."""
    if isinstance(type_, ir.TensorType):
        return ir.TensorType(type_.dtype, denotation=type_.denotation)
    return type_


def carry_annotations(source: ir.Value, target: ir.Value) -> None:
    """Copy quantization annotations, metadata and documentation to the replacement of a value."""
    # Reading these stores allocates them.
    if source._metadata is not None:  # pyright: ignore[reportPrivateUsage]
        for key, item in cast(dict[str, Any], source.meta).items():
            if key == annotations.KEY:
                annotations.merge(target, source)
            else:
                cast(dict[str, Any], target.meta).setdefault(key, item)
    if source._metadata_props:  # pyright: ignore[reportPrivateUsage]
        for key, text in source.metadata_props.items():
            target.metadata_props.setdefault(key, text)
    if target.doc_string is None:
        target.doc_string = source.doc_string


def may_rename(value: ir.Value) -> bool:
    """Return whether a value is interior: computed by a node, and not an output of a graph."""
    return value.producer() is not None and not value.is_graph_output()


def replace_value(old: ir.Value, new: ir.Value, names: Names) -> ir.Node | None:
    """Replace all uses of ``old`` by ``new``, keeping the names of graph inputs and outputs.

    Returns an Identity node, already appended to the graph, if a graph output must keep its name but ``new``
    cannot have it. A graph input that is also an output stays that output.
    """
    graph = old.graph
    if old.is_graph_input() or not old.is_graph_output():
        carry_annotations(old, new)
        _replace_inputs(old, new)
        return None
    assert graph is not None
    if may_rename(new) and new.graph is graph:
        name = old.name
        old.name = names.value(f"{name}_old")
        new.name = name
        copy_type_and_shape(old, new)
        carry_annotations(old, new)
        old.replace_all_uses_with(new, replace_graph_outputs=True)
        return None
    identity = ir.Node("", "Identity", [new], name=names.node(f"{old.name}/Identity"))
    alias = identity.outputs[0]
    copy_type_and_shape(old, alias)
    carry_annotations(old, alias)
    alias.name = old.name
    old.name = names.value(f"{old.name}_old")
    graph.append(identity)
    for index, output in enumerate(graph.outputs):
        if output is old:
            graph.outputs[index] = alias
    _replace_inputs(old, new)
    return identity


def _replace_inputs(old: ir.Value, new: ir.Value) -> None:
    for user, index in old.uses():
        user.replace_input_with(index, new)


def is_dead(node: ir.Node) -> bool:
    """Return whether no output of a node is used."""
    return not any(output.is_graph_output() or output.uses() for output in node.outputs)


def remove_if_dead(nodes: Iterable[ir.Node], keep: Collection[str] = ()) -> list[ir.Node]:
    """Remove dead nodes, then unused producers and initializers, except those named by ``keep``; return the nodes."""
    removed: list[ir.Node] = []
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if node.graph is None or not is_dead(node) or any(output.name in keep for output in node.outputs):
            continue
        inputs = list(dict.fromkeys(node.inputs))
        if holds_graphs(node):
            inputs = list(dict.fromkeys(used_values(node)))
            _detach_subgraphs(node)
        node.graph.remove(node, safe=True)
        removed.append(node)
        for value in inputs:
            if value is None:
                continue
            producer = value.producer()
            if producer is not None:
                waiting.append(producer)
            elif value.is_initializer() and value.name not in keep:
                _drop_initializer(value)
    return removed


def remove_unused_constants(values: Iterable[ir.Value | None]) -> None:
    """Remove those of the given values that are unused initializers or Constant nodes."""
    for value in values:
        producer = None if value is None else value.producer()
        if producer is not None and is_constant_node(producer):
            remove_if_dead([producer])
        elif value is not None and value.is_initializer():
            _drop_initializer(value)


def used_values(node: ir.Node) -> Sequence[ir.Value | None]:
    """Return all values that a node reads, including outer values that its subgraphs read or return."""
    graphs = subgraphs_of(node) if node.attributes.data else ()
    if not graphs:
        return node.inputs
    inside = dict.fromkeys(held for graph in graphs for held in (graph, *graph.subgraphs()))
    read = [value for graph in graphs for inner in all_nodes(graph) for value in inner.inputs]
    read += [value for held in inside for value in held.outputs]
    return [*node.inputs, *(value for value in read if value is not None and value.graph not in inside)]


def subgraphs_of(node: ir.Node) -> list[ir.Graph]:
    """Return the graphs in the attributes of a node."""
    return list(nested_graphs(node)) if holds_graphs(node) else []


def _detach_subgraphs(node: ir.Node) -> None:
    """Remove the uses of outer values by nodes inside the subgraphs."""
    for graph in subgraphs_of(node):
        for inner in all_nodes(graph):
            detach(inner)


def remove_all(graph: ir.Graph, nodes: Sequence[ir.Node]) -> None:
    """Remove nodes that only read each other."""
    for node in nodes:
        _detach_subgraphs(node)
    graph.remove(nodes, safe=True)


def detach(node: ir.Node) -> None:
    """Remove a node from the uses of its inputs."""
    for index in range(len(node.inputs)):
        node.replace_input_with(index, None)


def _drop_initializer(value: ir.Value) -> None:
    graph = value.graph
    if graph is None or value.name is None or value.uses() or value.is_graph_input() or value.is_graph_output():
        return
    graph.initializers.pop(value.name, None)


def read_instead(value: ir.Value, nodes: Sequence[ir.Node]) -> None:
    """Replace the uses of a value, except by the first node, by the result of the last node."""
    for user, index in list(value.uses()):
        if user is not nodes[0]:
            user.replace_input_with(index, nodes[-1].outputs[0])


def prepend(graph: ir.Graph, nodes: Sequence[ir.Node]) -> None:
    """Insert nodes before all others."""
    if len(graph):
        graph.insert_before(graph[0], nodes)
    else:
        graph.extend(nodes)
