"""Events of a run: replacements, and the history of one node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from onnx_passes.core.display import Displayed
from onnx_passes.history.items import Item, items_text
from onnx_passes.history.versions import Changes, NodeVersion, ValueVersion

_Index = dict[Item, list[Item]]


@dataclass(frozen=True, eq=False)
class Event:
    """The effect of one rule application, or of one pass outside of its applications, on nodes and values.

    Nodes added by a rule application come from all matched ones, those of any other pass only from linked ones.
    """

    step: int
    text: str
    matched: tuple[Item, ...]
    changes: Changes
    application: int = 0
    rule: str = ""
    source: str = ""
    root: NodeVersion | None = None

    def __str__(self) -> str:
        what = f"step {self.step}, {self.text}"
        if self.application:
            what = f"application {self.application} of {self.rule}, {self.source} ({what})"
        if not self.replacements:
            return f"{what}: {items_text(self.matched)}, which are unused"
        return f"{what}: {items_text(self.matched)} → {items_text(self.replacements)}"

    @property
    def added(self) -> tuple[Item, ...]:
        """Return the nodes, initializers and inputs that the event added or renamed."""
        pairs = self.changes.values
        values = (
            new for old, new in pairs if new is not None and new.is_source and (old is None or old.name != new.name)
        )
        return *self.changes.added, *values

    @property
    def removed(self) -> tuple[Item, ...]:
        """Return the nodes, initializers and inputs that the event removed or renamed."""
        pairs = self.changes.values
        values = (
            old for old, new in pairs if old is not None and old.is_source and (new is None or old.name != new.name)
        )
        return *self.changes.removed, *values

    @property
    def replacements(self) -> tuple[Item, ...]:
        """Return the replacements: all new items, and existing ones that replaced removed ones."""
        return tuple(dict.fromkeys((*self.added, *(heir for heir, _ in self.changes.heirs))))

    def parents(self, item: Item) -> Sequence[Item]:
        """Return the items from which an item of the event was made."""
        return self._made_of.get(item) or (self.matched if self.application else ())

    def children(self, item: Item) -> Sequence[Item]:
        """Return the items that replaced an item removed by the event."""
        return self._became.get(item) or (self.replacements if self.application else ())

    def about(self, item: Item) -> Event:
        """Narrow the changes of a pass all over the model to one item."""
        if self.application:
            return self
        old, new = self._made_of.get(item, []), self._became.get(item, [])
        if item in self._brought and not new:
            return self._narrowed([item], old)
        return self._narrowed(new, [item] if item in self._taken else [])

    def _narrowed(self, new: Sequence[Item], old: Sequence[Item]) -> Event:
        changes = Changes(
            removed=[item for item in old if isinstance(item, NodeVersion)],
            added=[item for item in new if isinstance(item, NodeVersion)],
            values=[
                *((item, None) for item in old if isinstance(item, ValueVersion)),
                *((None, item) for item in new if isinstance(item, ValueVersion)),
            ],
        )
        return replace(self, matched=tuple(old), changes=changes)

    @cached_property
    def _made_of(self) -> _Index:
        return _index(self.changes.links)

    @cached_property
    def _became(self) -> _Index:
        return _index((old, new) for new, old in (*self.changes.links, *self.changes.heirs))

    @cached_property
    def _brought(self) -> set[Item]:
        return set(self.added)

    @cached_property
    def _taken(self) -> set[Item]:
        return set(self.removed)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        data: dict[str, Any] = {"step": self.step, "pass": self.text}
        if self.application:
            data |= {"application": self.application, "rule": self.rule, "source": self.source}
        data["matched"] = [item.to_json() for item in self.matched]
        data["removed"] = [item.to_json() for item in self.removed]
        data["replacements"] = [item.to_json() for item in self.replacements]
        return data


@dataclass(frozen=True)
class Ancestry(Displayed):
    """The history of one node or value.

    ``events`` led to it, the latest first, and ``origins`` are the nodes of the original model from which they started.
    For a removed item, ``fate`` are the events that removed it and its replacements, and ``successors`` its
    replacements in the result.
    """

    name: str
    item: Item
    present: bool
    events: tuple[Event, ...] = ()
    origins: tuple[Item, ...] = ()
    fate: tuple[Event, ...] = ()
    successors: tuple[Item, ...] = ()

    def __str__(self) -> str:
        lines = [str(self.item) if self.present else f"{self.item} is gone"]
        for event in self.fate:
            lines.append(f"  removed by {event}")
        if self.fate:
            lines.append(f"  in the result: {items_text(self.successors)}")
        for event in self.events:
            lines.append(f"  from {event}")
        if self.events and self.origins:
            lines.append(f"  originally: {items_text(self.origins)}")
        elif not self.events:
            lines.append("  as in the original model" if self.present else "  it came from the original model")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "name": self.name,
            "present": self.present,
            "node": self.item.to_json(),
            "from": [event.to_json() for event in self.events],
            "origins": [item.to_json() for item in self.origins],
            "removed_by": [event.to_json() for event in self.fate],
            "successors": [item.to_json() for item in self.successors],
        }


def _index(pairs: Iterable[tuple[Item, Item]]) -> _Index:
    found: _Index = {}
    for item, other in pairs:
        found.setdefault(item, []).append(other)
    return found
