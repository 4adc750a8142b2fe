"""Patterns with several roots: find the other roots from values that the first one bound."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import onnx_ir as ir
from onnxscript.rewriter import _pattern_ir as language  # pyright: ignore[reportPrivateUsage]

from onnx_passes.rewrite.compile import children
from onnx_passes.rewrite.match import State


@dataclass(frozen=True)
class Link:
    """A value that the roots before this one bind, and the node patterns on the way up from it to this root."""

    root: language.NodePattern
    start: language.ValuePattern | None = None
    way: tuple[language.NodePattern, ...] = ()

    def candidates(self, state: State) -> Iterable[ir.Node]:
        """List the nodes that may be this root: reached from the shared value, or else all of its operator."""
        if self.start is None:
            return self._all(state)
        value = _bound(self.start, state)
        if value is None:
            return self._all(state)
        found = dict.fromkeys(value.consumers())
        for pattern in self.way[:-1]:
            found = {
                user: None
                for node in found
                if pattern.op.matches(node.op_type)
                for output in node.outputs
                for user in output.consumers()
            }
        return [node for node in found if node.graph is state.graph]

    def _all(self, state: State) -> Iterable[ir.Node]:
        operator = self.root.op_identifier()
        if operator is None or state.nodes_by_operator is None:
            return tuple(state.graph)
        return state.nodes_by_operator.get(state.graph, operator[0], operator[1])


def order_roots(roots: list[language.NodePattern], first: int) -> tuple[Link, ...]:
    """Order the other roots so that each is reached from what is bound before it, where that is possible."""
    seen: set[object] = set(_cone(roots[first]))
    waiting = [root for i, root in enumerate(roots) if i != first]
    links: list[Link] = []
    while waiting:
        reached = [(root, _way(root, seen)) for root in waiting]
        root, way = next(((r, w) for r, w in reached if w is not None), (waiting[0], None))
        links.append(Link(root) if way is None else Link(root, *way))
        waiting.remove(root)
        seen |= set(_cone(root))
    return tuple(links)


def _key(value: language.ValuePattern) -> object:
    return value if value.name is None else value.name


def _cone(root: language.NodePattern) -> Iterable[object]:
    """Iterate over the keys of all values that matching a root is sure to bind."""
    for value in root.inputs:
        if value is None or isinstance(value, language.AnyValue | language.Constant):
            continue
        if value.name is not None or not isinstance(value, language.BacktrackingOr | language.OpIdDispatchOr):
            yield _key(value)
        if isinstance(value, language.NodeOutputPattern):
            yield from _cone(value.producer())


def _way(
    root: language.NodePattern, seen: set[object]
) -> tuple[language.ValuePattern, tuple[language.NodePattern, ...]] | None:
    """Find the shortest way from a value already bound up to a root."""
    level: list[tuple[language.NodePattern, tuple[language.NodePattern, ...]]] = [(root, (root,))]
    while level:
        for node, way in level:
            for value in node.inputs:
                if value is not None and _key(value) in seen:
                    return value, way
        level = [
            (child, (child, *way))
            for node, way in level
            for value in node.inputs
            if isinstance(value, language.NodeOutputPattern)
            for child in children(value)
        ]
    return None


def _bound(pattern: language.ValuePattern, state: State) -> ir.Value | None:
    if isinstance(pattern, language.NodeOutputPattern):
        node = state.nodes.get(pattern.producer())
        return None if node is None else node.outputs[pattern.output_index]
    if pattern.name is not None:
        return state.bindings.get(pattern.name)
    return state.values.get(pattern)
