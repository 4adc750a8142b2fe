"""A match in progress, and a match found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from onnx_passes.core.display import Displayed

if TYPE_CHECKING:
    from collections.abc import Iterable


class Bindings:
    """The bindings so far; a matcher that backtracks removes its bindings."""

    __slots__ = ("bindings", "graph", "nodes", "nodes_by_operator", "partial", "taken", "thorough", "values")

    def __init__(
        self,
        graph: ir.Graph,
        nodes_by_operator: NodesByOperator | None = None,
        partial: Partial | None = None,
        *,
        thorough: bool = False,
    ) -> None:
        self.graph = graph
        self.bindings: dict[str, Any] = {}
        self.values: dict[Any, ir.Value | None] = {}
        self.nodes: dict[Any, ir.Node] = {}
        self.taken: set[ir.Node] = set()
        self.nodes_by_operator = nodes_by_operator
        self.partial = partial
        """The recorder of explanations; without one, matchers need no messages for failures."""
        self.thorough = thorough or partial is not None
        """Whether to go on where a condition is sure to fail, so that it can give its reason."""
        if partial is not None:
            partial.state = self

    def failed(self, reason: str, at: ir.Value | ir.Node | None) -> bool:
        """Record the failure that matched furthest, if explanations are wanted."""
        if self.partial is not None:
            self.partial.add(reason, at)
        return False


@dataclass
class Partial:
    """Partial match: its matched nodes, and the reason why matching stopped.

    ``nodes`` are the parts of the pattern that were found by then, each with its node. Where inputs may be swapped,
    several ways end equally far: ``failures`` has them all, ``reason`` and ``at`` are those of the first.
    """

    matched: int = 0
    reason: str = ""
    at: ir.Value | ir.Node | None = None
    nodes: tuple[tuple[Any, ir.Node], ...] = ()
    failures: list[tuple[str, ir.Value | ir.Node | None]] = field(
        default_factory=list[tuple[str, ir.Value | ir.Node | None]]
    )
    state: Bindings | None = field(default=None, repr=False, compare=False)

    def add(self, reason: str, at: ir.Value | ir.Node | None) -> None:
        """Add a failure, unless another one matched further."""
        found = self.found()
        if len(found) > self.matched or not self.reason:
            self.matched, self.reason, self.at, self.nodes = len(found), reason, at, found
            self.failures = [(reason, at)]
        elif len(found) == self.matched and (reason, at) not in self.failures:
            self.failures.append((reason, at))

    def found(self) -> tuple[tuple[Any, ir.Node], ...]:
        """List the parts of the pattern that are bound right now, each with its node."""
        return () if self.state is None else tuple(self.state.nodes.items())


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
class Match(Displayed):
    """The argument of a check: the matched region, with the attributes of onnxscript's match context."""

    model: ir.Model
    graph_or_function: ir.Graph | ir.Function
    root: ir.Node
    nodes: tuple[ir.Node, ...]
    output_values: tuple[ir.Value, ...]
    bindings: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def opset(self) -> int:
        """Return the version of the standard operators at the match."""
        return opset_of(self.model, self.graph_or_function)

    def display(self) -> str:
        """Describe the matched nodes, one a line."""
        return "\n".join(str(node) for node in self.nodes)


def opset_of(model: ir.Model, container: ir.Graph | ir.Function) -> int:
    """Return the version of the standard operators in the graph of a model or in a function."""
    imports = (container if isinstance(container, ir.Function) else model).opset_imports
    return imports.get("", imports.get("ai.onnx", 1))


def describe_node(node: ir.Node) -> str:
    """Name a node: operator and its name, or that of its first output."""
    name = node.name or (node.outputs[0].name if node.outputs else None)
    return f"{node.op_type} '{name}'" if name else node.op_type
