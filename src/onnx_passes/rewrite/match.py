"""A match in progress, and a match found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

if TYPE_CHECKING:
    from collections.abc import Iterable


class State:
    """Bindings made so far; a matcher that backtracks takes back what it bound."""

    __slots__ = ("best", "bindings", "graph", "nodes", "nodes_by_operator", "taken", "values")

    def __init__(self, graph: ir.Graph, nodes_by_operator: NodesByOperator | None = None) -> None:
        self.graph = graph
        self.bindings: dict[str, Any] = {}
        self.values: dict[Any, ir.Value | None] = {}
        self.nodes: dict[Any, ir.Node] = {}
        self.taken: set[ir.Node] = set()
        self.nodes_by_operator = nodes_by_operator
        self.best: Partial | None = None

    def failed(self, reason: str, at: ir.Value | ir.Node | None) -> bool:
        """Remember the failure that came furthest, if somebody asked for explanations."""
        if self.best is not None and len(self.nodes) >= self.best.matched:
            self.best.matched = len(self.nodes)
            self.best.reason = reason
            self.best.at = at
        return False


@dataclass
class Partial:
    """How far a match came and why it went no further."""

    matched: int = 0
    reason: str = "operator differs"
    at: ir.Value | ir.Node | None = None


class NodesByOperator:
    """Nodes of the graphs being rewritten by operator, for patterns with several roots."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[ir.Graph, str, str], dict[ir.Node, None]] = {}

    def add(self, node: ir.Node) -> None:
        """Enter a node of a graph."""
        if node.graph is not None:
            self._nodes.setdefault((node.graph, node.domain, node.op_type), {})[node] = None

    def get(self, graph: ir.Graph, domain: str, op_type: str) -> Iterable[ir.Node]:
        """List the nodes of one operator in one graph that are still there."""
        nodes = self._nodes.get((graph, domain, op_type), {})
        for node in [node for node in nodes if node.graph is not graph]:
            del nodes[node]
        return tuple(nodes)


@dataclass(eq=False, slots=True)
class Match:
    """What a check is given: the matched region; attributes are those of onnxscript's match context."""

    model: ir.Model
    graph_or_function: ir.Graph | ir.Function
    root: ir.Node
    nodes: tuple[ir.Node, ...]
    output_values: tuple[ir.Value, ...]
    bindings: dict[str, Any] = field(default_factory=dict[str, Any])

    def display(self) -> str:
        """Describe the matched nodes, one a line."""
        return "\n".join(str(node) for node in self.nodes)


def describe_node(node: ir.Node) -> str:
    """Name a node: operator and its name, or that of its first output."""
    name = node.name or (node.outputs[0].name if node.outputs else None)
    return f"{node.op_type} '{name}'" if name else node.op_type
