"""The contents of a drawing before layout: boxes, and wires between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from onnx_passes.ops.describe import Family

Role = Literal["", "added", "removed", "changed", "found"]
ROLES: tuple[Role, ...] = ("added", "removed", "changed", "found")
Kind = Literal["node", "input", "output", "value", "block"]


@dataclass(frozen=True)
class Row:
    """A line in a box: a constant or an attribute, and its content."""

    label: str
    text: str

    def __str__(self) -> str:
        return " ".join(filter(None, (self.label, self.text)))


@dataclass(frozen=True)
class Box:
    """A node, an input or output of the graph, or a block of nodes; ``inner`` are nested graphs."""

    key: str
    kind: Kind
    title: str
    name: str = ""
    rows: tuple[Row, ...] = ()
    family: Family = "other"
    role: Role = ""
    hint: str = ""
    inner: tuple[Scene, ...] = ()

    @property
    def is_card(self) -> bool:
        """Return whether the box has a head with rows below; inputs and outputs of the graph are mere labels."""
        return self.kind in ("node", "block")

    @property
    def lines(self) -> list[str]:
        """Return all texts of the box."""
        return list(filter(None, (self.title, self.name, *map(str, self.rows))))


@dataclass(frozen=True)
class Wire:
    """A value between two boxes; wires of one ``net`` carry the same value."""

    source: str
    target: str
    net: str
    label: str = ""
    role: Role = ""


@dataclass(frozen=True)
class Scene:
    """The drawn contents of a graph."""

    title: str
    boxes: tuple[Box, ...]
    wires: tuple[Wire, ...]
    note: str = ""

    def all_boxes(self) -> Iterator[Box]:
        """Iterate over the boxes, each followed by nested ones."""
        for box in self.boxes:
            yield box
            for scene in box.inner:
                yield from scene.all_boxes()

    @property
    def roles(self) -> tuple[Role, ...]:
        """Return the roles in use, in the order of the legend."""
        found = {box.role for box in self.all_boxes()}
        return tuple(role for role in ROLES if role in found)
