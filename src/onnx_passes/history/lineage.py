"""Lineage: the rule applications and passes that made a node of the result, or removed one."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from onnx_passes.core.errors import UsageError, did_you_mean
from onnx_passes.history.events import Ancestry, Event
from onnx_passes.history.items import Item


class Lineage:
    """Follows items through the events of a run; each was added by at most one event, and removed by at most one."""

    def __init__(self, events: Sequence[Event], original: Mapping[str, Item], result: Mapping[str, Item]) -> None:
        self._events = events
        self._original = original
        self._result = result
        self._brought: dict[Item, int] = {}
        self._took: dict[Item, int] = {}
        self._before: dict[Item, Item] = {}
        self._after: dict[Item, Item] = {}
        self._gone: dict[str, Item] = {}
        for number, event in enumerate(events):
            self._brought.update(dict.fromkeys(event.added, number))
            for item in event.removed:
                self._took[item] = number
                self._gone.update(dict.fromkeys(item.names, item))
            for old, new in (*event.changes.rewired, *event.changes.values):
                if old is not None and new is not None and new not in self._brought:
                    self._before[new], self._after[old] = old, new

    def of(self, name: str) -> Ancestry:
        """Return the origin of a node or value, or its fate; named by itself or by one of its outputs."""
        if name in self._result:
            item = self._result[name]
            return Ancestry(name, item, True, *self._back(item))
        if name in self._gone:
            item = self._gone[name]
            return Ancestry(name, item, False, *self._back(item), *self._forth(item))
        raise UsageError(
            f"neither the model nor any step of the run has '{name}'",
            hint=did_you_mean(name, {*self._original, *self._result, *self._gone}) or "name a node or a value",
        )

    def _back(self, item: Item) -> tuple[tuple[Event, ...], tuple[Item, ...]]:
        """Follow an item back to the original model."""
        events: dict[int, Event] = {}
        origins: dict[Item, None] = {}
        waiting, seen = deque([item]), set[Item]()
        while waiting:
            current = _last(waiting.popleft(), self._before)
            if current in seen:
                continue
            seen.add(current)
            number = self._brought.get(current)
            if number is None:
                origins[current] = None
            else:
                events.setdefault(number, self._events[number].about(current))
                waiting.extend(self._events[number].parents(current))
        return tuple(events[number] for number in sorted(events, reverse=True)), tuple(origins)

    def _forth(self, item: Item) -> tuple[tuple[Event, ...], tuple[Item, ...]]:
        """Follow the replacements of an item to those in the result."""
        events: dict[int, Event] = {}
        successors: dict[Item, None] = {}
        waiting, seen = deque([item]), set[Item]()
        while waiting:
            current = _last(waiting.popleft(), self._after)
            if current in seen:
                continue
            seen.add(current)
            number = self._took.get(current)
            if number is None:
                successors[current] = None
            else:
                events.setdefault(number, self._events[number].about(current))
                waiting.extend(self._events[number].children(current))
        return tuple(events[number] for number in sorted(events)), tuple(successors)


def _last(item: Item, following: Mapping[Item, Item]) -> Item:
    while item in following:
        item = following[item]
    return item
