"""Versions of nodes and values: every change creates a new version, and versions are immutable."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import onnx_ir as ir

from onnx_passes.graph.wording import attribute_text
from onnx_passes.history.constants import Constant
from onnx_passes.history.items import Item

Dimension = int | ir.SymbolicDim
Attribute = ir.Attr | tuple[str, Constant]
"""An attribute without tensors and graphs; or the name of a tensor attribute, and its content."""


@dataclass(slots=True, eq=False)
class NodeVersion(Item):
    """A node between two events; ``number`` identifies it, ``graph`` is its graph."""

    number: int
    graph: int
    attributes: tuple[Attribute, ...] = ()
    graphs: tuple[int, ...] = ()
    scope: str = ""

    @property
    def texts(self) -> dict[str, str]:
        """Return the attributes as text."""
        return dict(
            (attribute[0], str(attribute[1]))
            if isinstance(attribute, tuple)
            else (attribute.name, attribute_text(attribute))
            for attribute in self.attributes
        )


class Description(NamedTuple):
    """The description of a value: two values with equal descriptions are equal."""

    name: str
    graph: int
    kind: str
    type: ir.DataType | str | None
    shape: tuple[Dimension, ...] | None
    datatype: str
    constant: Constant | None


@dataclass(slots=True, eq=False)
class ValueVersion(Item):
    """A value between two events."""

    number: int
    description: Description

    @property
    def is_source(self) -> bool:
        """Return whether no node computes it."""
        return self.description.kind in ("input", "initializer")


@dataclass(slots=True, eq=False)
class GraphVersion:
    """Graph: the main one, a subgraph of a node, or a function."""

    number: int
    name: str
    parent: int | None = None
    holder: str = ""
    attribute: str = ""
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


class GraphInterface(NamedTuple):
    """The inputs and outputs of a graph, by name."""

    graph: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(slots=True)
class Changes:
    """The changes between two moments.

    ``rewired`` are pairs of a node before and after of which only the inputs changed, ``values`` pairs of versions of a
    value, with None for new or removed ones. ``links`` maps new items to the old ones from which they were made;
    ``heirs`` existed before, and now replace removed items. ``interfaces`` are graphs with other inputs or outputs.
    """

    removed: list[NodeVersion] = field(default_factory=list[NodeVersion])
    added: list[NodeVersion] = field(default_factory=list[NodeVersion])
    rewired: list[tuple[NodeVersion, NodeVersion]] = field(default_factory=list[tuple[NodeVersion, NodeVersion]])
    values: list[tuple[ValueVersion | None, ValueVersion | None]] = field(
        default_factory=list[tuple[ValueVersion | None, ValueVersion | None]]
    )
    links: list[tuple[Item, Item]] = field(default_factory=list[tuple[Item, Item]])
    heirs: list[tuple[Item, Item]] = field(default_factory=list[tuple[Item, Item]])
    interfaces: list[GraphInterface] = field(default_factory=list[GraphInterface])

    def __bool__(self) -> bool:
        return bool(self.removed or self.added or self.rewired or self.values or self.interfaces)
