"""What a picture shows, before anything has a place: boxes, and wires between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from onnx_passes.ops.families import Family

Role = Literal["", "added", "removed", "changed", "found"]
ROLES: tuple[Role, ...] = ("added", "removed", "changed", "found")
Kind = Literal["node", "input", "output", "value", "block"]


@dataclass(frozen=True)
class Row:
    """A line in a box: a constant or an attribute, and what it holds."""

    label: str
    text: str

    def __str__(self) -> str:
        return " ".join(filter(None, (self.label, self.text)))


@dataclass(frozen=True)
class Box:
    """A node, an end of the graph, or a block of nodes that is shown as one; ``inner`` are graphs inside of it."""

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
        """Tell whether it has a head with lines below; ends of the graph are mere labels."""
        return self.kind in ("node", "block")

    @property
    def lines(self) -> list[str]:
        """Return all that is written on it."""
        return list(filter(None, (self.title, self.name, *map(str, self.rows))))


@dataclass(frozen=True)
class Wire:
    """A value on its way from one box to another; wires of one ``net`` carry the same value."""

    source: str
    target: str
    net: str
    label: str = ""
    role: Role = ""


@dataclass(frozen=True)
class Scene:
    """A graph as it is shown."""

    title: str
    boxes: tuple[Box, ...]
    wires: tuple[Wire, ...]
    note: str = ""

    def all_boxes(self) -> Iterator[Box]:
        """Iterate over the boxes, each followed by those inside of it."""
        for box in self.boxes:
            yield box
            for scene in box.inner:
                yield from scene.all_boxes()

    @property
    def roles(self) -> tuple[Role, ...]:
        """Return the roles that something has here, in the order of a legend."""
        found = {box.role for box in self.all_boxes()}
        return tuple(role for role in ROLES if role in found)
