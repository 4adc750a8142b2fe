"""Keys of operators that determine their computation, except for the values that they read.

The key of a node by itself (``content.py``) names a function and an operator set; these keys also contain the body of
the function, the version of the operator and the number of random draws, at any depth.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.core.walk import all_graphs, nested_graphs
from onnx_passes.graph.hashing.content import Contents, Key, present_inputs, subgraphs
from onnx_passes.graph.hashing.fingerprint import Fingerprinter
from onnx_passes.graph.randomness import is_random
from onnx_passes.graph.schemas import schema_of


@dataclass(frozen=True)
class _Scope:
    """Operator sets and functions of the nodes of a graph.

    ``outer`` are the operator sets of the model, with which ONNX Runtime computes bodies of functions.
    """

    imports: Mapping[str, int]
    outer: Mapping[str, int]
    functions: Mapping[ir.OperatorIdentifier, ir.Function]


@dataclass(frozen=True)
class NodeFunction:
    """A node as a function of its operands: its inputs, then the outer values that its subgraphs read."""

    key: tuple[Key, ...]
    operands: tuple[ir.Value | None, ...]
    draws: int
    """Number of random nodes within it."""


class Semantics(Contents):
    """Keys of the nodes of some models, for their operator sets and functions; other nodes count to the last model."""

    def __init__(self, models: Iterable[ir.Model]) -> None:
        super().__init__()
        self._fingerprinter = Fingerprinter(self)
        self._scopes: dict[ir.Graph, _Scope] = {}
        self._bodies: dict[ir.Function, bytes] = {}
        self._draws: dict[ir.Function, int] = {}
        self._elsewhere = _Scope({}, {}, {})
        for model in models:
            self._elsewhere = _Scope(model.graph.opset_imports, model.graph.opset_imports, model.functions)
            for owner in (model.graph, *(function.graph for function in model.functions.values())):
                scope = _Scope(owner.opset_imports, model.opset_imports, model.functions)
                self._scopes.update(dict.fromkeys((owner, *all_graphs(owner)), scope))

    def operation(self, node: ir.Node) -> NodeFunction:
        """Return a node of one of the models as a function of its operands."""
        bodies: list[Key] = []
        operands = [*present_inputs(node)]
        places: list[Key] = [len(operands)]
        for name, index, graph in subgraphs(node):
            body, captured = self._fingerprinter.body(graph)
            bodies.append((name, index, body))
            places.append(len(captured))
            operands += captured
        return NodeFunction((*self.node(node), *bodies, *places), tuple(operands), self.draws(node))

    def node(self, node: ir.Node) -> tuple[Key, ...]:
        """Return the key of a node with its version, the function that it calls, and its number of random draws."""
        scope = self._scope(node)
        function = scope.functions.get(node.op_identifier())
        body = None if function is None else self._body(function)
        versions = version_of(node, scope.imports), version_of(node, scope.outer)
        return (super().node(node), *versions, body, self.draws(node))

    def draws(self, node: ir.Node) -> int:
        """Count the random nodes among a node, its subgraphs and the functions that it calls."""
        function = self._scope(node).functions.get(node.op_identifier())
        if function is not None and function not in self._draws:
            self._draws[function] = 0  # A function that calls itself is not valid, and must not hang.
            self._draws[function] = self.draws_of(function)
        own = int(is_random(node)) if function is None else self._draws[function]
        return own + sum(self.draws_of(graph) for graph in nested_graphs(node))

    def draws_of(self, nodes: Iterable[ir.Node]) -> int:
        """Count the random nodes among nodes and within them."""
        return sum(map(self.draws, nodes))

    def _scope(self, node: ir.Node) -> _Scope:
        return self._elsewhere if node.graph is None else self._scopes.get(node.graph, self._elsewhere)

    def _body(self, function: ir.Function) -> bytes:
        if function not in self._bodies:
            self._bodies[function] = b""
            self._bodies[function] = self._fingerprinter.structural(function)
        return self._bodies[function]


def version_of(node: ir.Node, imports: Mapping[str, int]) -> int | None:
    """Return the version that introduced the current semantics of an operator; the opset version if unknown."""
    version = imports.get(node.domain)
    if version is None and not node.domain:
        version = imports.get("ai.onnx")
    schema = None if version is None else schema_of(node.domain, node.op_type, version)
    return version if schema is None else schema.since_version
