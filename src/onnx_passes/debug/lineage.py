"""Lineage: which rule applications and passes a node of the result came from, and where a lost one went."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import onnx_ir as ir

import onnx_passes.passes  # noqa: F401  # pyright: ignore[reportUnusedImport] - teaches the registry foreign rules
from onnx_passes.core.compose import PassLike
from onnx_passes.core.errors import UsageError, did_you_mean
from onnx_passes.core.instruments import Instrument
from onnx_passes.core.manager import Manager
from onnx_passes.core.plan import Plan, Step, plan
from onnx_passes.core.records import Application, RunRecord, StepRecord
from onnx_passes.debug.events import Ancestry, Event
from onnx_passes.debug.items import Item, Key, added_items, item_of, item_of_value
from onnx_passes.debug.snapshots import Changes, Snapshot, Thing, changes
from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.load import Source, load


def why(
    model: Source,
    node: str,
    pipeline: PassLike | Iterable[PassLike] | Plan,
    *,
    options: Mapping[str, Mapping[str, object]] | None = None,
) -> Ancestry:
    """Run a pipeline, unverified, and tell which rewrites a node came from or, if it is gone, who removed it.

    ``node`` names a node or a value, of the result or of any step. The model is left as it is.
    """
    planned = pipeline if isinstance(pipeline, Plan) else plan(pipeline, defaults=options)
    lineage = Lineage()
    Manager([lineage]).run(planned, copy_model(load(model)))
    return lineage.of(node)


@dataclass
class _Book:
    """What is known by name, and the numbers of the events that brought or took something, in their order."""

    original: dict[str, Item] = field(default_factory=dict[str, Item])
    result: dict[str, Item] = field(default_factory=dict[str, Item])
    gone: dict[str, tuple[int, Item]] = field(default_factory=dict[str, tuple[int, Item]])
    brought: dict[Key, list[int]] = field(default_factory=dict[Key, list[int]])
    took: dict[Key, list[int]] = field(default_factory=dict[Key, list[int]])


class Lineage(Instrument):
    """Records what every rule application and every pass replaced, by name: no tensor is kept alive."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._book = _Book()
        self._before: Snapshot | None = None
        self._explained: set[Thing] = set()
        self._concerned: dict[ir.Node, Item] = {}

    def before_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Note the nodes of the original model."""
        self.events = []
        self._book = _Book(original=Snapshot(model).by_name())

    def after_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Note the nodes of the result."""
        self._book.result = Snapshot(model).by_name()

    def pipeline_failed(self, run: RunRecord, model: ir.Model, error: BaseException) -> None:
        """Note what is left of a failed run."""
        self._before = None
        self._explained.clear()
        self._concerned.clear()
        self.after_pipeline(run, model)

    def before_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Take a snapshot, held for the time of the pass only."""
        if not record.has_children:
            self._before = Snapshot(model)

    def after_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Note what a pass did that none of its rule applications explains."""
        before, self._before = self._before, None
        if before is None or record.has_children:
            return
        found = changes(before, Snapshot(model), self._explained)
        self._explained.clear()
        if found.added or found.removed:
            self._add(Event(record.number, step.text, found.removed, found))

    def before_rewrite(self, application: Application) -> None:
        """Describe what is about to be replaced, and what may get another name by that."""
        heirs = [node for _, new in application.replaced if (node := new.producer()) is not None]
        kept = [node for node in heirs if node.graph is not None]
        self._concerned = {node: item_of(node) for node in (*application.matched, *kept)}

    def after_rewrite(self, application: Application) -> None:
        """Note a rule application."""
        concerned, self._concerned = self._concerned, {}
        now = [(node, old, item_of(node)) for node, old in concerned.items() if node.graph is not None]
        renamed = [(node, new, old) for node, old, new in now if old.key != new.key]
        links = tuple((new, old) for _, new, old in renamed)
        matched = tuple(concerned[node] for node in application.matched)
        removed = [concerned[node] for node in application.matched if node.graph is None]
        heirs = [
            (item_of_value(new), concerned[node])
            for old, new in application.replaced
            if (node := old.producer()) in concerned and node.graph is None
        ]
        added = added_items(application)
        found = Changes(
            (*added, *(new for new, _ in links)),
            (*removed, *(old for _, old in links)),
            links,
            tuple(heirs),
        )
        self._explained.update((*application.matched, *application.added, *application.initializers))
        self._explained.update(node for node, _, _ in renamed)
        step = application.step
        rule = (application.number, application.rule, application.source)
        self._add(Event(step.number, step.text, matched, found, *rule))

    def of(self, name: str) -> Ancestry:
        """Tell where a node or value came from, or where it went; named by itself or by one of its outputs."""
        book = self._book
        if name in book.result:
            item = book.result[name]
            return Ancestry(name, item, True, *self._back(item, len(self.events)))
        if name in book.gone:
            number, item = book.gone[name]
            return Ancestry(name, item, False, *self._back(item, number), *self._forth(item, number))
        raise UsageError(
            f"neither the model nor any step of the run knows '{name}'",
            hint=did_you_mean(name, {*book.original, *book.result, *book.gone}) or "name a node or a value",
        )

    def _add(self, event: Event) -> None:
        number, book = len(self.events), self._book
        self.events.append(event)
        for item in event.changes.added:
            book.brought.setdefault(item.key, []).append(number)
        for item in event.changes.removed:
            book.took.setdefault(item.key, []).append(number)
            book.gone.update(dict.fromkeys(item.names, (number, item)))

    def _back(self, item: Item, before: int) -> tuple[tuple[Event, ...], tuple[Item, ...]]:
        """Follow an item back to the original model."""
        events: dict[int, Event] = {}
        origins: dict[Item, None] = {}
        waiting, seen = deque([(item, before)]), set[tuple[Item, int]]()
        while waiting:
            current, limit = waiting.popleft()
            number = self._brought(current, limit)
            if number is None:
                origins[current] = None
            elif (current, number) not in seen:
                seen.add((current, number))
                events.setdefault(number, self.events[number].about(current))
                waiting.extend((parent, number) for parent in self.events[number].parents(current))
        return tuple(events[number] for number in sorted(events, reverse=True)), tuple(origins)

    def _brought(self, item: Item, before: int) -> int | None:
        """Find the last event before another one that brought an item."""
        numbers = self._book.brought.get(item.key, [])
        at = bisect_left(numbers, before)
        return numbers[at - 1] if at else None

    def _forth(self, item: Item, removal: int) -> tuple[tuple[Event, ...], tuple[Item, ...]]:
        """Follow what replaced an item, to what is in the result."""
        events: dict[int, Event] = {}
        successors: dict[Item, None] = {}
        waiting, seen = deque([(item, removal)]), set[tuple[Item, int]]()
        while waiting:
            current, number = waiting.popleft()
            if (current, number) in seen:
                continue
            seen.add((current, number))
            events.setdefault(number, self.events[number].about(current))
            for child in self.events[number].children(current):
                following = self._taken(child, number)
                if following is not None:
                    waiting.append((child, following))
                else:
                    successors[child] = None
        return tuple(events[number] for number in sorted(events)), tuple(successors)

    def _taken(self, item: Item, after: int) -> int | None:
        """Find the first event after another one that removed an item."""
        numbers = self._book.took.get(item.key, [])
        at = bisect_right(numbers, after)
        return numbers[at] if at < len(numbers) else None
