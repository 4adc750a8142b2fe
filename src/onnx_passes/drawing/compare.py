"""Mark the differences from one graph to another in a drawing of the second."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import onnx_ir as ir

from onnx_passes.core.walk import all_nodes
from onnx_passes.drawing.build import Ghosts, Marks, read_values
from onnx_passes.drawing.scene import Role
from onnx_passes.graph.alignment import Alignment
from onnx_passes.graph.annotations import values
from onnx_passes.graph.changes import changed_nodes
from onnx_passes.graph.hashing.content import Contents, subgraphs


def marks_between(before: ir.Graph, after: ir.Graph) -> Marks:
    """Align two graphs, and mark nodes as added, changed or, in the first, removed."""
    contents = Contents()
    alignment = Alignment(before, after, contents)
    roles: dict[ir.Node, Role] = dict.fromkeys(alignment.added_nodes, "added")
    for each in changed_nodes(alignment, contents):
        # A node whose operands only have another producer is not changed itself: its wires show that.
        if any(change.aspect != "input" for change in each.changes):
            roles[each.after] = "changed"
    homes = _homes(before, after, alignment)
    ghosts: dict[ir.Graph, list[ir.Node]] = {}
    for node in alignment.removed_nodes:
        if isinstance(node.graph, ir.Graph) and node.graph in homes:
            ghosts.setdefault(homes[node.graph], []).append(node)

    def value_now(value: ir.Value) -> ir.Value:
        producer, index = value.producer(), value.index()
        partner = None if producer is None else alignment.nodes.get(producer)
        if partner is not None and index is not None and index < len(partner.outputs):
            return partner.outputs[index]
        return alignment.values.get(value, value)

    return Marks(roles, Ghosts(ghosts, value_now, alignment.nodes.get))


def _homes(before: ir.Graph, after: ir.Graph, alignment: Alignment) -> dict[ir.Graph, ir.Graph]:
    homes = {before: after}
    for node, partner in alignment.nodes.items():
        for (_, _, old), (_, _, new) in zip(subgraphs(node), subgraphs(partner), strict=False):
            homes[old] = new
    return homes


def marks_by_hand(graph: ir.Graph, chosen: Mapping[Role, Sequence[ir.Node]]) -> Marks:
    """Mark nodes on request; the old neighbours of removed nodes are found by name."""
    inside = dict.fromkeys(all_nodes(graph))
    roles: dict[ir.Node, Role] = {node: role for role, nodes in chosen.items() for node in nodes if node in inside}
    gone = [node for node in chosen.get("removed", ()) if node not in inside]
    if not gone:
        return Marks(roles)
    known = {value.name: value for value in values(graph)}
    own = set(known.values()) | {value for node in gone for value in node.outputs}
    named = {node.name: node for node in inside if node.name}
    return Marks(
        roles,
        Ghosts(
            {graph: gone},
            lambda value: value if value in own else known.get(value.name, value),
            lambda node: node if node in inside else named.get(node.name or ""),
        ),
    )


def surroundings(graph: ir.Graph, marks: Marks) -> Iterator[ir.Node]:
    """Yield the neighbours of removed nodes."""
    for node in marks.ghosts.nodes.get(graph, ()):
        yield from _beside(node, marks.ghosts)


def only_near(graph: ir.Graph, marks: Marks, shown: Iterable[ir.Node], hops: int) -> Marks:
    """Leave out removed nodes that were far from the drawn ones."""
    near, left = set(shown), list(marks.ghosts.nodes.get(graph, ()))
    kept: list[ir.Node] = []
    for _ in range(hops):
        found = [node for node in left if any(other in near for other in _beside(node, marks.ghosts))]
        near.update(found)
        kept += found
        left = [node for node in left if node not in near]
    return replace(marks, ghosts=replace(marks.ghosts, nodes={**marks.ghosts.nodes, graph: kept}))


def _beside(node: ir.Node, ghosts: Ghosts) -> Iterator[ir.Node]:
    """Yield the current counterparts of the producers and consumers of a removed node."""
    for value in read_values(node):
        now = ghosts.value(value)
        producer = None if now is None else now.producer()
        if producer is not None:
            yield producer
    for value in node.outputs:
        for reader, _ in value.uses():
            yield ghosts.node(reader) or reader
