"""Nodes and constants by name, for records of a run, which must not keep tensors alive."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from onnx_passes.core.records import Application
from onnx_passes.graph.wording import operator_name

_VALUES = ("initializer", "graph input")


@dataclass(slots=True, eq=False)
class Item:
    """Node; or an initializer or a graph input in the form of a node."""

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def __str__(self) -> str:
        if self.op in _VALUES:
            return f"{self.name} ({self.op})"
        return f"{', '.join(name or '?' for name in self.outputs)} = {self.op}({', '.join(self.inputs)})"

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the item: those of its results, then its own."""
        return tuple(dict.fromkeys(name for name in (*self.outputs, self.name) if name))

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {"op_type": self.op, "name": self.name, "inputs": list(self.inputs), "outputs": list(self.outputs)}


def input_names(node: ir.Node) -> tuple[str, ...]:
    """Return the names of the inputs of a node; empty for a missing one."""
    return tuple(["" if value is None else value.name or "?" for value in node.inputs])


def output_names(node: ir.Node) -> tuple[str, ...]:
    """Return the names of the results of a node."""
    return tuple([value.name or "" for value in node.outputs])


def item_of(node: ir.Node) -> Item:
    """Return the current description of a node."""
    return Item(operator_name(node), node.name or "", input_names(node), output_names(node))


def item_of_value(value: ir.Value) -> Item:
    """Describe the node that computes a value, or the value itself if it is an initializer or an input."""
    producer = value.producer()
    if producer is not None:
        return item_of(producer)
    name = value.name or ""
    return Item("initializer" if value.is_initializer() else "graph input", name, (), (name,))


def items_text(items: Iterable[Item]) -> str:
    """Format items on one line."""
    return ", ".join(map(str, items)) or "nothing"


@dataclass(frozen=True)
class Applied:
    """One application of a rule: its number in the run, its location, and the matched and added items."""

    number: int
    step: int
    rule: str
    source: str
    matched: tuple[Item, ...]
    added: tuple[Item, ...]


def matched_items(application: Application) -> tuple[Item, ...]:
    """Return the items that an application is about to replace."""
    return tuple(map(item_of, application.matched))


def added_items(application: Application) -> tuple[Item, ...]:
    """Return the items that an application added to the graph."""
    return (*map(item_of, application.added), *map(item_of_value, application.initializers))
