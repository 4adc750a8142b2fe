"""The form of a graph: how deep and how wide it is, where it forks and joins, and its longest path."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from onnx_passes.core.plain import plain
from onnx_passes.graph.edits import used_values
from onnx_passes.graph.wording import name_of


@dataclass(frozen=True)
class GraphStatistics:
    """Numbers on the outermost graph; bodies of control flow belong to their node, Constant nodes are no nodes here.

    ``edges`` are readings of results and inputs by nodes. ``depth`` counts the nodes of the longest path, ``width``
    the nodes at the most crowded distance from the inputs. ``forks`` are results and inputs that several nodes read,
    ``joins`` nodes that read several. ``parts`` are pieces that no value connects.
    """

    nodes: int
    edges: int
    depth: int
    width: int
    forks: int
    joins: int
    parts: int
    widest_fork: int
    unused_inputs: tuple[str, ...]
    unread_nodes: int
    longest_path: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain data, by the names of the fields; ``longest_path`` names nodes from input to output."""
        return plain(vars(self))


def statistics_of(model: ir.Model) -> GraphStatistics:
    """Look at the graph once; the order of its nodes does not matter."""
    graph = model.graph
    nodes = [node for node in graph if node.op_type != "Constant" or node.domain]
    reads = {node: _reads(node) for node in nodes}
    readers = Counter(value for values in reads.values() for value in values)
    before, level = _levels(reads)
    last = max(level, key=lambda node: level[node], default=None)
    path: list[str] = []
    while last is not None:
        path.append(name_of(last))
        last = before[last]
    kept = set(graph.outputs)
    return GraphStatistics(
        nodes=len(nodes),
        edges=readers.total(),
        depth=len(path),
        width=max(Counter(level.values()).values(), default=0),
        forks=sum(1 for count in readers.values() if count > 1),
        joins=sum(1 for values in reads.values() if len(values) > 1),
        parts=_parts(reads),
        widest_fork=max(readers.values(), default=0),
        unused_inputs=tuple(v.name or "" for v in graph.inputs if v not in readers and v not in kept and not v.uses()),
        unread_nodes=sum(1 for node in nodes if not any(out in readers or out in kept for out in node.outputs)),
        longest_path=tuple(reversed(path)),
    )


def _reads(node: ir.Node) -> list[ir.Value]:
    """List the activations that a node reads, also those that its bodies take from outside, each once."""
    found = dict.fromkeys(value for value in used_values(node) if value is not None)
    return [value for value in found if not _is_constant(value)]


def _is_constant(value: ir.Value) -> bool:
    producer = value.producer()
    if producer is None:
        return value.is_initializer()
    return producer.op_type == "Constant" and not producer.domain


def _levels(
    reads: dict[ir.Node, list[ir.Value]],
) -> tuple[dict[ir.Node, ir.Node | None], dict[ir.Node, int]]:
    """Find the distance of nodes from the inputs, and for each the node before it on the longest way there."""
    after: dict[ir.Node, list[ir.Node]] = {}
    waiting: dict[ir.Node, int] = {}
    for node, values in reads.items():
        producers = (value.producer() for value in values)
        sources = [producer for producer in producers if producer is not None and producer in reads]
        waiting[node] = len(sources)
        for source in sources:
            after.setdefault(source, []).append(node)
    level: dict[ir.Node, int] = {}
    before: dict[ir.Node, ir.Node | None] = {}
    ready = deque(node for node, count in waiting.items() if not count)
    level.update(dict.fromkeys(ready, 1))
    before.update(dict.fromkeys(ready))
    while ready:
        node = ready.popleft()
        for reader in after.get(node, ()):
            if level[node] + 1 > level.get(reader, 0):
                level[reader], before[reader] = level[node] + 1, node
            waiting[reader] -= 1
            if not waiting[reader]:
                ready.append(reader)
    return before, level


def _parts(reads: dict[ir.Node, list[ir.Value]]) -> int:
    """Count the pieces of the graph that no value connects."""
    roots: dict[object, object] = {}

    def root(thing: object) -> object:
        while (parent := roots.setdefault(thing, thing)) is not thing:
            roots[thing] = roots[parent]
            thing = parent
        return thing

    for node, values in reads.items():
        for value in values:
            roots[root(value)] = root(node)
        for value in node.outputs:
            roots[root(value)] = root(node)
    return len({root(node) for node in reads})
