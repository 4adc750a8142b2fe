"""Draw a model, a graph, a function, some nodes, or the differences between two graphs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import onnx_ir as ir

from onnx_passes.core.errors import UsageError, did_you_mean
from onnx_passes.core.walk import all_nodes, holds_graphs, nested_graphs
from onnx_passes.drawing.blocks import summarised
from onnx_passes.drawing.build import Block, Ghosts, Marks, is_drawn, read_values, scene_of
from onnx_passes.drawing.drawing import Drawing
from onnx_passes.drawing.scene import ROLES, Role
from onnx_passes.graph.alignment import Alignment
from onnx_passes.graph.annotations import values
from onnx_passes.graph.changes import changed_nodes
from onnx_passes.graph.find_node import find_node
from onnx_passes.graph.hashing.content import Contents, subgraphs
from onnx_passes.graph.load import Source, load
from onnx_passes.graph.wording import count

Drawable = Source | ir.Model | ir.Graph | ir.Function | ir.Node | Sequence[ir.Node]
Named = ir.Node | str

LIMIT = 150
"""Default maximum of drawn nodes, beyond which a drawing is not readable."""


@dataclass(frozen=True)
class _Subject:
    """The subject of a drawing: a graph, its nodes to draw, its title, and the scope of names."""

    graph: ir.Graph
    title: str
    nodes: tuple[ir.Node, ...] | None = None
    owner: ir.Model | ir.Graph | None = None

    def find(self, node: Named) -> ir.Node:
        return find_node(self.owner or self.graph, node) if isinstance(node, str) else node


def draw(
    what: Drawable,
    *,
    before: Drawable | None = None,
    highlight: Mapping[str, Named | Iterable[Named]] | None = None,
    around: Named | Iterable[Named] | None = None,
    hops: int = 2,
    limit: int | None = LIMIT,
    title: str = "",
) -> Drawing:
    """Draw a model, a graph, a function, a node with its neighbourhood, or some nodes.

    ``before`` is an earlier version: additions, removals and changes since are coloured. ``highlight`` colours
    explicitly, by nodes or their names: ``{"added": [node], "changed": ["conv1"]}``; removed nodes are drawn next to
    existing ones. ``around`` shows the nodes at most ``hops`` steps away from some nodes. A graph of more than
    ``limit`` nodes is drawn around its coloured nodes, or else as a summary with repetitions drawn once;
    ``limit=None`` draws everything.
    """
    if hops < 0 or (limit is not None and limit < 1):
        raise UsageError(
            "a drawing needs at least one node, and hops cannot be negative", hint="as in limit=150, hops=2"
        )
    subject = _subject(what)
    centres = [] if around is None else [subject.find(each) for each in _each(around)]
    if isinstance(what, ir.Node):
        centres.append(what)
    if centres and centres[0] not in holders(subject.graph):
        subject = replace(subject, graph=_home(centres[0]), nodes=None)
    marks = _marks(subject, before, highlight or {})
    items, note = _shown(subject, centres, marks, hops, limit)
    if centres:
        # One step more than for others, to show all nodes that were removed between two nodes.
        marks = only_near(subject.graph, marks, [item for item in items if isinstance(item, ir.Node)], hops + 1)
    marks = replace(_within(marks, limit), nested=limit is None or _size(items) <= limit)
    return Drawing(scene_of(subject.graph, items, marks, title=title or subject.title, note=note))


def _subject(what: Drawable) -> _Subject:
    if isinstance(what, ir.Node):
        return _Subject(_home(what), what.name or what.op_type)
    if isinstance(what, ir.Graph):
        return _Subject(what, what.name or "graph")
    if isinstance(what, ir.Function):
        return _Subject(what.graph, "::".join(filter(None, what.identifier())))
    if isinstance(what, Sequence) and not isinstance(what, str | bytes | bytearray | memoryview):
        nodes = tuple(cast("Sequence[object]", what))
        if not nodes or not all(isinstance(node, ir.Node) for node in nodes):
            raise UsageError("these are not nodes", hint="give a model, a graph, a function, a node or nodes")
        chosen = cast("tuple[ir.Node, ...]", nodes)
        return _Subject(_home(chosen[0]), count(chosen, "node"), chosen)
    model = load(cast("Source", what))
    return _Subject(model.graph, model.graph.name or "graph", owner=model)


def _home(node: ir.Node) -> ir.Graph:
    """Return the graph of a node; a removed or not yet inserted one has an empty graph."""
    home = node.graph
    if home is None:
        return ir.Graph([], [], nodes=[], name="")
    return home.graph if isinstance(home, ir.Function) else home


def _each(nodes: Named | Iterable[Named]) -> list[Named]:
    return [nodes] if isinstance(nodes, str | ir.Node) else list(nodes)


def _marks(subject: _Subject, before: Drawable | None, highlight: Mapping[str, Named | Iterable[Named]]) -> Marks:
    unknown = next((role for role in highlight if role not in ROLES), None)
    if unknown is not None:
        raise UsageError(
            f"'{unknown}' is not a role", hint=did_you_mean(unknown, ROLES) or f"they are {', '.join(ROLES)}"
        )
    chosen: dict[Role, list[ir.Node]] = {
        role: [subject.find(each) for each in _each(highlight[role])] for role in ROLES if role in highlight
    }
    if before is None:
        return marks_by_hand(subject.graph, chosen)
    marks = marks_between(_subject(before).graph, subject.graph)
    by_hand: dict[ir.Node, Role] = {node: role for role, nodes in chosen.items() for node in nodes}
    return replace(marks, roles={**marks.roles, **by_hand})


def _shown(
    subject: _Subject, centres: Sequence[ir.Node], marks: Marks, hops: int, limit: int | None
) -> tuple[Sequence[ir.Node | Block], str]:
    """Select the drawn items, with a note if these are not all."""
    graph = subject.graph
    nodes = [node for node in subject.nodes or graph if is_drawn(node)]
    if centres:
        found = neighbourhood(graph, centres, hops, limit) or list(centres)
        return found, _part(found, nodes)
    ghosts = sum(map(len, marks.ghosts.nodes.values()))
    if limit is None or len(nodes) + ghosts <= limit:
        return nodes, "" if subject.nodes else count(nodes, "node")
    marked = [*marks.roles, *surroundings(graph, marks)]
    if marked:
        found = neighbourhood(graph, marked, hops, limit)
        return found, _part(found, nodes)
    items = summarised(nodes, limit)
    return items, f"summary of {count(nodes, 'node')}"


def _part(found: Sequence[ir.Node], nodes: Sequence[ir.Node]) -> str:
    drawn = sum(1 for node in found if is_drawn(node))
    return count(nodes, "node") if drawn == len(nodes) else f"{drawn} of {count(nodes, 'node')}"


def _size(items: Sequence[ir.Node | Block]) -> int:
    """Count the drawn items, including their insides."""
    holders = [item for item in items if isinstance(item, ir.Node) and holds_graphs(item)]
    return len(items) + sum(1 for node in holders for graph in nested_graphs(node) for _ in all_nodes(graph))


def _within(marks: Marks, limit: int | None) -> Marks:
    """Leave out removed nodes beyond the limit."""
    if limit is None:
        return marks
    nodes = {graph: removed[:limit] for graph, removed in marks.ghosts.nodes.items()}
    return replace(marks, ghosts=replace(marks.ghosts, nodes=nodes))


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


def neighbourhood(graph: ir.Graph, centres: Iterable[ir.Node], hops: int, limit: int | None) -> list[ir.Node]:
    """Return the nodes at most ``hops`` steps away, in graph order, and no more than the limit.

    A centre inside a subgraph counts as the node that holds it. Nearer nodes take precedence within the limit.
    """
    homes = holders(graph)
    found = dict.fromkeys(homes[node] for node in centres if node in homes)
    edge = list(found)
    for _ in range(hops):
        near = dict.fromkeys(other for node in edge for other in _around(node, homes))
        edge = [node for node in near if node not in found]
        found.update(dict.fromkeys(edge))
        if limit is not None and len(found) >= limit:
            break
    kept = set(list(found)[:limit])
    return [node for node in graph if node in kept]


def holders(graph: ir.Graph) -> dict[ir.Node, ir.Node]:
    """Return for every node, also of subgraphs, the node of the graph that is it or holds it."""
    homes: dict[ir.Node, ir.Node] = {}
    for node in graph:
        homes[node] = node
        if holds_graphs(node):
            homes.update((inner, node) for nested in nested_graphs(node) for inner in all_nodes(nested))
    return homes


def _around(node: ir.Node, homes: Mapping[ir.Node, ir.Node]) -> Iterator[ir.Node]:
    for value in read_values(node):
        producer = value.producer()
        if producer is not None and producer in homes and is_drawn(producer):
            yield homes[producer]
    for value in node.outputs:
        yield from (homes[reader] for reader, _ in value.uses() if reader in homes)
