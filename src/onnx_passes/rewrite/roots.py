"""Patterns with several roots: find the other roots from values that the first one bound."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import onnx_ir as ir
from onnxscript.rewriter import _pattern_ir as language  # pyright: ignore[reportPrivateUsage]

from onnx_passes.rewrite.match import State
from onnx_passes.rewrite.patterns import children, operator_of


@dataclass(frozen=True)
class Link:
    """A value that the roots before this one bind, and the node patterns on the way up from it to this root."""

    root: language.NodePattern
    start: language.ValuePattern | None = None
    way: tuple[language.NodePattern, ...] = ()

    def candidates(self, state: State) -> Iterable[ir.Node]:
        """List the nodes that may be this root: reached from the shared value, or else all of its operator."""
        value = None if self.start is None else bound_value(self.start, state)
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
        operator = operator_of(self.root)
        if operator is None or state.nodes_by_operator is None:
            return tuple(state.graph)
        return state.nodes_by_operator.get(state.graph, *operator)


def find_roots(pattern: language.GraphPattern) -> tuple[language.NodePattern, ...]:
    """List the nodes that no other output of the pattern depends on: matching starts there."""
    outputs = pattern.output_nodes
    return tuple(node for node in outputs if not any(node in _cone(other) for other in outputs if other is not node))


def order_roots(roots: Sequence[language.NodePattern], first: int) -> tuple[Link, ...]:
    """Order the other roots so that each is reached from what is bound before it, where that is possible."""
    seen = _cone(roots[first])
    waiting = [root for i, root in enumerate(roots) if i != first]
    links: list[Link] = []
    while waiting:
        reached = [(root, _way(root, seen)) for root in waiting]
        root, way = next(((r, w) for r, w in reached if w is not None), (waiting[0], None))
        links.append(Link(root) if way is None else Link(root, *way))
        waiting.remove(root)
        seen |= _cone(root)
    return tuple(links)


def bound_value(pattern: language.ValuePattern, state: State) -> ir.Value | None:
    """Return what a value pattern is bound to, if it is bound to a value."""
    if isinstance(pattern, language.NodeOutputPattern):
        node = state.nodes.get(pattern.producer())
        return None if node is None else node.outputs[pattern.output_index]
    bound = state.values.get(pattern) if pattern.name is None else state.bindings.get(pattern.name)
    return bound if isinstance(bound, ir.Value) else None


def _key(value: language.ValuePattern) -> object:
    return value if value.name is None else value.name


def _cone(root: language.NodePattern) -> set[object]:
    """Collect the node patterns, and the keys of the values, that matching a root is sure to bind."""
    found: set[object] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node in found:
            continue
        found.add(node)
        found.update(_key(output) for output in node.outputs)
        for value in node.inputs:
            if value is not None and not isinstance(value, language.AnyValue | language.Constant):
                found.add(_key(value))
            if isinstance(value, language.NodeOutputPattern):
                waiting.append(value.producer())
    return found


def _way(
    root: language.NodePattern, seen: set[object]
) -> tuple[language.ValuePattern, tuple[language.NodePattern, ...]] | None:
    """Find the shortest way from a value already bound up to a root."""
    level: dict[language.NodePattern, tuple[language.NodePattern, ...]] = {root: (root,)}
    while level:
        for node, way in level.items():
            for value in node.inputs:
                if value is not None and _key(value) in seen:
                    return value, way
        level = {
            child: (child, *way)
            for node, way in level.items()
            for value in node.inputs
            if isinstance(value, language.NodeOutputPattern)
            for child in children(value)
        }
    return None
