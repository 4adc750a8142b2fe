"""Record the effects of every rewrite and pass on nodes and values, and trace a node of the result back."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import Any

import onnx_ir as ir

from onnx_passes.core.errors import UsageError, did_you_mean
from onnx_passes.core.failures import describe_failure
from onnx_passes.core.instruments import Instrument
from onnx_passes.core.plan import Step
from onnx_passes.core.records import Application, RunRecord, StepRecord
from onnx_passes.graph.find_node import Place, place_name
from onnx_passes.graph.origin import origin
from onnx_passes.history.events import Ancestry, Event
from onnx_passes.history.items import Item
from onnx_passes.history.live import Live
from onnx_passes.history.versions import Changes, GraphInterface, GraphVersion, NodeVersion, ValueVersion


@dataclass(frozen=True)
class RecordedState:
    """The model at one moment: its nodes and values, and the inputs and outputs of its graphs."""

    nodes: tuple[NodeVersion, ...] = ()
    values: tuple[ValueVersion, ...] = ()
    interfaces: tuple[GraphInterface, ...] = ()

    def by_name(self) -> dict[str, Item]:
        """Map names to nodes, initializers and inputs; names of nodes have precedence over those of values."""
        things: list[Item] = [*(value for value in self.values if value.is_source), *self.nodes]
        values = {name: item for item in things for name in item.outputs if name}
        return values | {item.name: item for item in things if item.name}


class Recording(Instrument):
    """The history of a run, event by event; it keeps names and numbers, and no part of the model alive.

    It must be the last instrument, so that errors of others about a rewrite are recorded before it.
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self.run: RunRecord | None = None
        self.events: list[Event] = []
        self.original = RecordedState()
        self.graphs: list[GraphVersion] = []
        self.opsets: dict[str, int] = {}
        self.name = ""
        self.file = ""
        self.failure: dict[str, Any] | None = None
        self._live: Live | None = None
        self._users: list[ir.Node] = []
        self._matched: tuple[Item, ...] = ()
        self._step: StepRecord | None = None
        self.__dict__.pop("_lineage", None)

    @property
    def final(self) -> RecordedState:
        """Return the state at the end of the run."""
        return self.state()

    def state(self, step: int | None = None) -> RecordedState:
        """Return the model after a step with all its inner steps, after the whole run, or, with 0, the original."""
        last = None if step is None else self._last(step)
        nodes, values = dict.fromkeys(self.original.nodes), dict.fromkeys(self.original.values)
        interfaces = {interface.graph: interface for interface in self.original.interfaces}
        for event in self.events:
            if last is not None and event.step > last:
                break
            fold(event.changes, nodes, values, interfaces)
        return RecordedState(tuple(nodes), tuple(values), tuple(interfaces.values()))

    def _last(self, number: int) -> int:
        """Return the number of the last nested step of a step."""
        if self.run is None or not 0 < number <= len(self.run.steps):
            return number
        steps = self.run.steps[number - 1 :]
        inner = takewhile(lambda step: step.depth > steps[0].depth, steps[1:])
        return number + sum(1 for _ in inner)

    def of(self, place: Place) -> Ancestry:
        """Return the origin of a node or value, or its fate; named by itself or by one of its outputs."""
        return self._lineage.of(place_name(place))

    @cached_property
    def _lineage(self) -> Lineage:
        return Lineage(self.events, self.original.by_name(), self.final.by_name())

    def before_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Record the original model."""
        self._live = self.begin(run, model)

    def begin(self, run: RunRecord, model: ir.Model) -> Live:
        """Record a model, and return the tracker of its changes."""
        self._begin()
        self.run, live = run, Live()
        found = live.look(model)
        values = tuple(new for _, new in found.values if new is not None)
        self.original = RecordedState(tuple(found.added), values, tuple(found.interfaces))
        self.graphs = live.graphs
        source = origin(model)
        self.file = "" if source is None or source.path is None else source.path.name
        self.name, self.opsets = model.graph.name or "", dict(model.graph.opset_imports)
        return live

    def after_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Record the changes of instruments at the end, and release the model."""
        if self._live is not None and self._step is not None:
            self.note(self._step, self._live.look(model))
        self._live = None

    def pipeline_failed(self, run: RunRecord, model: ir.Model, error: BaseException) -> None:
        """Record the state of a failed run, and the error."""
        self.failure = describe_failure(error)
        self.after_pipeline(run, model)
        self._users.clear()

    def before_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Record the step."""
        if not record.has_children:
            self._step = record

    def after_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Record the changes of a pass outside of its rewrites."""
        if self._live is not None and record.modified and not record.has_children:
            self.note(record, self._live.look(model))

    def pass_failed(self, record: StepRecord, step: Step, model: ir.Model, error: BaseException) -> None:
        """Record the changes of a pass before it failed."""
        if self._live is not None and not record.has_children:
            self.note(record, self._live.look(model))

    def before_rewrite(self, application: Application) -> None:
        """Record the nodes to be replaced, and their consumers."""
        live = self._live
        if live is None:
            return
        self._users = [use.node for old, _ in application.replaced for use in old.uses()]
        self._matched = tuple(version for node in application.matched if (version := live.version(node)) is not None)

    def after_rewrite(self, application: Application) -> None:
        """Record a rewrite."""
        live, users, matched = self._live, self._users, self._matched
        self._users, self._matched = [], ()
        if live is None:
            return
        pairs = application.replaced
        producers = [node for old, new in pairs for node in (old.producer(), new.producer()) if node is not None]
        root = None if application.root is None else live.version(application.root)
        before = {old: live.source(old) for old, _ in pairs}
        values = [*application.initializers, *(new for _, new in pairs)]
        graph = application.graph.graph if isinstance(application.graph, ir.Function) else application.graph
        is_interface = not application.matched or any(new.is_graph_output() for _, new in pairs)
        changes = live.touch(
            (*application.matched, *application.added, *producers), users, values, graph if is_interface else None
        )
        removed = {*changes.removed, *(old for old, new in changes.values if new is None)}
        heirs = [
            (heir, item)
            for old, new in pairs
            if (item := before[old]) is not None
            and item in removed
            and (heir := live.source(new)) is not None
            and heir not in changes.added
        ]
        changes.heirs = list(dict.fromkeys((*changes.heirs, *heirs)))
        step, rule = application.step, (application.number, application.rule, application.source)
        at = root if isinstance(root, NodeVersion) else None
        self.events.append(Event(step.number, step.text, matched, changes, *rule, at))

    def note(self, record: StepRecord, changes: Changes) -> None:
        """Add the changes of a step, if any."""
        if changes:
            self.events.append(Event(record.number, record.text, tuple(changes.removed), changes))


def fold(
    changes: Changes,
    nodes: dict[NodeVersion, None],
    values: dict[ValueVersion, None],
    interfaces: dict[int, GraphInterface],
) -> None:
    """Apply a change to a state."""
    for old in (*changes.removed, *(old for old, _ in changes.rewired)):
        del nodes[old]
    nodes.update(dict.fromkeys((*changes.added, *(new for _, new in changes.rewired))))
    for old, new in changes.values:
        if old is not None:
            del values[old]
        if new is not None:
            values[new] = None
    interfaces.update({interface.graph: interface for interface in changes.interfaces})


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
