"""The one engine that carries facts about values forward through a model; a domain defines the facts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import reduce
from typing import Generic, TypeVar

import onnx_ir as ir

from onnx_passes.core.walk import holds_graphs, nested_graphs

Fact = TypeVar("Fact")


class Forward(ABC, Generic[Fact]):
    """A domain of facts: the fact of a source, the transfer function of a node, and the join of branches.

    ``known`` has the facts found so far. Nodes come after those that they read from, and a node that an edit makes is
    visited by itself; sources are looked at when a node first asks for them.
    """

    def __init__(self) -> None:
        self.known: dict[ir.Value, Fact] = {}

    @abstractmethod
    def source(self, value: ir.Value) -> Fact:
        """Return the fact of a source: a constant, an input, or a value of a node that was not visited."""

    @abstractmethod
    def transfer(self, node: ir.Node) -> Sequence[Fact]:
        """Return the facts of the results of a node, in their order; omitted results are unknown."""

    @abstractmethod
    def join(self, a: Fact, b: Fact) -> Fact:
        """Return the fact that holds for both values."""

    def of(self, value: ir.Value) -> Fact:
        """Return the fact of a value."""
        if value not in self.known:
            self.known[value] = self.source(value)
        return self.known[value]

    def run(self, graph: ir.Graph) -> None:
        """Visit all nodes of a graph, in their order."""
        for node in graph:
            self.visit(node)

    def visit(self, node: ir.Node) -> None:
        """Compute the facts of the results of a node, after all nodes inside of it."""
        if holds_graphs(node):
            for inner in nested_graphs(node):
                self.run(inner)
        facts = self.transfer(node)
        if facts:
            self.known.update(zip(node.outputs, facts, strict=False))

    def of_branches(self, node: ir.Node) -> list[Fact]:
        """Return the joined facts of the results of an If for both branches."""
        outputs = zip(*(branch.outputs for branch in nested_graphs(node)), strict=True)
        return [reduce(self.join, map(self.of, either)) for either in outputs]
