"""The one engine that carries facts about values forward through a model; what a fact is, a domain says."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import reduce
from typing import Generic, TypeVar

import onnx_ir as ir

from onnx_passes.core.walk import holds_graphs, nested_graphs

Fact = TypeVar("Fact")


class Forward(ABC, Generic[Fact]):
    """A domain of facts: what is known of a source, what a node makes of that, and what holds for either branch.

    ``known`` has what was found so far. Nodes come after those that they read from, and a node that an edit makes is
    visited by itself; sources are looked at when a node first asks for them.
    """

    def __init__(self) -> None:
        self.known: dict[ir.Value, Fact] = {}

    @abstractmethod
    def source(self, value: ir.Value) -> Fact:
        """Return what is known of a constant, an input, or anything else that no node was seen to compute."""

    @abstractmethod
    def transfer(self, node: ir.Node) -> Sequence[Fact]:
        """Return what is known of the results of a node, in their order; results that are left out are not known."""

    @abstractmethod
    def join(self, a: Fact, b: Fact) -> Fact:
        """Return what holds for what may be one or the other."""

    def of(self, value: ir.Value) -> Fact:
        """Return what is known of a value."""
        if value not in self.known:
            self.known[value] = self.source(value)
        return self.known[value]

    def run(self, graph: ir.Graph) -> None:
        """Visit all nodes of a graph, in their order."""
        for node in graph:
            self.visit(node)

    def visit(self, node: ir.Node) -> None:
        """Find what is known of the results of a node, after all that is inside of it."""
        if holds_graphs(node):
            for inner in nested_graphs(node):
                self.run(inner)
        facts = self.transfer(node)
        if facts:
            self.known.update(zip(node.outputs, facts, strict=False))

    def of_branches(self, node: ir.Node) -> list[Fact]:
        """Return what holds for the results of an If, whichever branch it takes."""
        outputs = zip(*(branch.outputs for branch in nested_graphs(node)), strict=True)
        return [reduce(self.join, map(self.of, either)) for either in outputs]
