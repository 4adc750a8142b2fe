"""Put a replacement, or a constant, into the graph: names stay unique, the interface stays, annotations go along."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant_node
from onnx_passes.graph.edits import (
    carry_annotations,
    copy_type,
    copy_type_and_shape,
    remove_if_dead,
    replace_value,
    subgraphs_of,
    used_values,
)
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.nesting import with_nested
from onnx_passes.rewrite.scope import Scope


def constant_for(old: ir.Value, tensor: ir.TensorProtocol, scope: Scope, *, as_node: bool) -> ir.Value:
    """Make an initializer, or the result of a Constant node, with the name, type and annotations of a value."""
    node, graph = old.producer(), old.graph
    assert node is not None
    assert isinstance(graph, ir.Graph)
    clashes = not old.name or (not as_node and old.name in graph.initializers)
    name = scope.names.value(old.name or node.name or "constant") if clashes else str(old.name)
    if as_node:
        label = scope.names.node(node.name) if node.name and old.index() else node.name
        constant = constant_node(tensor, label)
        constant.metadata_props.update(node.metadata_props)
        constant.doc_string = node.doc_string
        new = constant.outputs[0]
        new.name = name
    else:
        tensor.name = name
        new = ir.Value(name=name, const_value=tensor)
        if node._metadata_props or old._metadata_props:  # pyright: ignore[reportPrivateUsage]
            new.metadata_props.update({**node.metadata_props, **old.metadata_props})
        new.doc_string = old.doc_string or node.doc_string
    same_type = isinstance(old.type, ir.TensorType) and old.dtype == tensor.dtype
    new.type = copy_type(old.type) if same_type and old.type is not None else ir.TensorType(tensor.dtype)
    is_interface = old.is_graph_output() and old.shape is not None
    new.shape = old.shape.copy() if is_interface and old.shape is not None else ir.Shape(tensor.shape.numpy())
    return new


def put_constant(old: ir.Value, new: ir.Value) -> None:
    """Replace all uses of a value by a constant and clear the name of the value; its producer stays."""
    node, graph = old.producer(), old.graph
    assert node is not None
    assert isinstance(graph, ir.Graph)
    constant = new.producer()
    if constant is None:
        graph.register_initializer(new)
    else:
        graph.insert_before(node, constant)
    carry_annotations(old, new)
    old.replace_all_uses_with(new, replace_graph_outputs=True)
    old.name = None


@dataclass
class Change:
    """The effect of an application on the graph."""

    added: list[ir.Node]
    removed: list[ir.Node] = field(default_factory=list[ir.Node])


def splice(scope: Scope, builder: Builder, match: Match, new: Sequence[ir.Value]) -> Change:
    """Insert the built nodes after the root, replace the old values, and remove dead nodes."""
    graph = match.root.graph
    assert graph is not None
    nodes = builder.nodes
    _import_opsets(scope, builder)
    for value in builder.initializers:
        value.name = scope.names.value(value.name or "constant")
        graph.register_initializer(value)
    circular = _settle_own_uses(builder, match, new)
    unplaced = _name_values(scope, builder, match, new)
    wishes = [node.name for node in nodes]
    for node in nodes:
        # Without any name the graph would make one up.
        node.name = ""
    _insert(builder, match.root, graph)

    change = Change(list(nodes))
    for old, value in zip(match.output_values, new, strict=True):
        if value in unplaced:
            unplaced.discard(value)
            copy_type_and_shape(old, value)
            carry_annotations(old, value)
            old.replace_all_uses_with(value, replace_graph_outputs=True)
        elif value is not old:
            identity = replace_value(old, value, scope.names)
            if identity is not None:
                change.added.append(identity)
    for user, index, old in circular:
        user.replace_input_with(index, old)
    lent = _lend_subgraphs(nodes, match)
    change.removed = remove_if_dead(match.nodes[::-1], scope.keep)
    for node, attribute in lent:
        if node.graph is not None:
            node.attributes.add(_copy_of_graphs(attribute))
    for old, value in zip(match.output_values, new, strict=True):
        if old is not value and old.name and old.name == value.name and old.graph is not None:
            old.name = scope.names.value(f"{old.name}_old")
    _name_nodes(scope, nodes, wishes, match, change.removed)
    _carry_node_metadata(nodes, match)
    return change


def _insert(builder: Builder, root: ir.Node, graph: ir.Graph) -> None:
    if not builder.places:
        graph.insert_after(root, builder.nodes)
        return
    last: dict[ir.Node, ir.Node] = {}
    for node in builder.nodes:
        wished = builder.places.get(node, root)
        place = wished if wished.graph is graph else root
        graph.insert_after(last.get(place, place), node)
        last[place] = node


def _import_opsets(scope: Scope, builder: Builder) -> None:
    for domain in {node.domain: None for node in builder.nodes}:
        wanted = builder.opsets.get(domain) or scope.model.graph.opset_imports.get(domain, 1)
        scope.container.opset_imports.setdefault(domain, wanted)
        scope.model.graph.opset_imports.setdefault(domain, wanted)


def _settle_own_uses(builder: Builder, match: Match, new: Sequence[ir.Value]) -> list[tuple[ir.Node, int, ir.Value]]:
    """Redirect uses by new nodes to new values; return the uses that would be circular, which keep the old value."""
    places = {old: value for old, value in zip(match.output_values, new, strict=True) if old is not value}
    circular: list[tuple[ir.Node, int, ir.Value]] = []
    for node in builder.nodes:
        for user in with_nested(node):
            for index, old in enumerate(user.inputs):
                if old is None or old not in places:
                    continue
                if _derives_from(places[old], node):
                    circular.append((user, index, old))
                else:
                    user.replace_input_with(index, places[old])
    return circular


def _derives_from(value: ir.Value, node: ir.Node) -> bool:
    """Return whether a new value is computed from a new node; new nodes are not in a graph yet."""
    waiting, seen = [value.producer()], set[ir.Node]()
    while waiting:
        producer = waiting.pop()
        if producer is node:
            return True
        if producer is not None and producer.graph is None and producer not in seen:
            seen.add(producer)
            waiting.extend(used.producer() for used in used_values(producer) if used is not None)
    return False


def _name_values(scope: Scope, builder: Builder, match: Match, new: Sequence[ir.Value]) -> set[ir.Value]:
    """Name the built values; return those with the position and name of an old one."""
    places: dict[ir.Value, str | None] = {}
    for old, value in zip(match.output_values, new, strict=True):
        places.setdefault(value, old.name)
    base = next((value.name for value in match.output_values if value.name), None) or match.root.name or "value"
    placed: set[ir.Value] = set()
    for node in builder.nodes:
        for value in node.outputs:
            if value in places:
                placed.add(value)
            if places.get(value):
                value.name = places[value]
            elif value.name:
                value.name = scope.names.value(value.name)
            elif value.name is None:
                value.name = scope.derive(scope.names.value, base, f"_{node.op_type}")
    return placed


def _name_nodes(
    scope: Scope, nodes: Sequence[ir.Node], wishes: Sequence[str | None], match: Match, removed: Sequence[ir.Node]
) -> None:
    """Name new nodes; the last one takes over from the root, and names of removed nodes are free again."""
    free = {node.name for node in removed if node.name}
    base = match.root.name or match.output_values[0].name or "node"
    for node, given in zip(nodes, wishes, strict=True):
        wish = given or (base if node is nodes[-1] else None)
        if wish is None:
            node.name = scope.derive(scope.names.node, base, f"/{node.op_type}")
        elif wish in free:
            free.discard(wish)
            node.name = wish
        else:
            node.name = scope.names.node(wish)


def _carry_node_metadata(nodes: Sequence[ir.Node], match: Match) -> None:
    """Copy the metadata of the matched nodes to new nodes; that of the root takes precedence."""
    merged: dict[str, str] = {}
    for node in (*match.nodes, match.root):
        merged.update(node.metadata_props)
    if nodes:
        nodes[-1].doc_string = nodes[-1].doc_string or match.root.doc_string
    for node in nodes if merged else ():
        for key, text in merged.items():
            node.metadata_props.setdefault(key, text)


def _lend_subgraphs(nodes: Sequence[ir.Node], match: Match) -> list[tuple[ir.Node, ir.Attr]]:
    """Remove subgraphs that new nodes hold, too, from the matched nodes, so that they are not emptied with these."""
    held = {graph for node in nodes if node.attributes for graph in subgraphs_of(node)}
    if not held:
        return []
    lent = [(node, a) for node in match.nodes for a in node.attributes.values() if _graphs(a) & held]
    for node, attribute in lent:
        del node.attributes[attribute.name]
    return lent


def _graphs(attribute: ir.Attr) -> set[ir.Graph]:
    if attribute.is_ref():
        return set()
    if attribute.type is ir.AttributeType.GRAPH:
        return {attribute.as_graph()}
    return set(attribute.as_graphs()) if attribute.type is ir.AttributeType.GRAPHS else set()


def _copy_of_graphs(attribute: ir.Attr) -> ir.Attr:
    if attribute.type is ir.AttributeType.GRAPH:
        return ir.AttrGraph(attribute.name, attribute.as_graph().clone(allow_outer_scope_values=True))
    copies = [graph.clone(allow_outer_scope_values=True) for graph in attribute.as_graphs()]
    return ir.AttrGraphs(attribute.name, copies)
