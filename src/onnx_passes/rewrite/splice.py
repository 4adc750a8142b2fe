"""Put a replacement into the graph: names stay unique, the interface stays, annotations go along."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from onnx_passes.graph.builder import Builder
from onnx_passes.graph.edits import (
    carry_annotations,
    copy_type_and_shape,
    remove_if_dead,
    replace_value,
    subgraphs_of,
)
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.order import used_values, with_nested
from onnx_passes.rewrite.scope import Scope


@dataclass
class Change:
    """What an application did to the graph."""

    added: list[ir.Node]
    removed: list[ir.Node] = field(default_factory=list[ir.Node])


def splice(scope: Scope, builder: Builder, match: Match, new: Sequence[ir.Value]) -> Change:
    """Insert what the rewrite built after the root, use it instead of the old values, remove what died."""
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
    """Let new nodes use new values too; returns where this would go in a circle and the old value has to stay."""
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
    """Tell whether a value is computed from a node, both new: new nodes are in no graph yet."""
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
    """Name the values that the rewrite built; returns those that take the place, and name, of an old one."""
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
    """Let new nodes say what the matched ones said; the root has the last word."""
    merged: dict[str, str] = {}
    for node in (*match.nodes, match.root):
        merged.update(node.metadata_props)
    if nodes:
        nodes[-1].doc_string = nodes[-1].doc_string or match.root.doc_string
    for node in nodes if merged else ():
        for key, text in merged.items():
            node.metadata_props.setdefault(key, text)


def _lend_subgraphs(nodes: Sequence[ir.Node], match: Match) -> list[tuple[ir.Node, ir.Attr]]:
    """Take subgraphs that new nodes hold too from the matched nodes, lest they are emptied when these die."""
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
