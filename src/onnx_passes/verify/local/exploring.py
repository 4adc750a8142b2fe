"""What the graphs inside a model compute by themselves, where its samples do not reach them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.randomness import Functions, draws
from onnx_passes.verify.comparison.compare import compare
from onnx_passes.verify.comparison.ulp import Kind, kind_of
from onnx_passes.verify.local.bodies import (
    Body,
    NoValueError,
    Path,
    all_bodies,
    bodies,
    functions_with_bodies,
    values_read,
)
from onnx_passes.verify.run.execute import Engine, Executor, Sample
from onnx_passes.verify.samples.generate import generate

How = Literal["reached", "alone", "drawn", "taken", "unchecked"]
Run = tuple[int, ...]
"""The number of the sample, then those of the turns of the loops around a graph."""
Runs = Mapping[Run, Sample]

TAKEN: Path = ()
"""Where the model itself is found, made to take the branches that no sample takes: what reads them shows in it."""
_TURNS = 3
"""So many turns of a Loop run alone: what depends on the turn is no constant then."""
_MOST_RUNS = 12
_MOST_BODIES = 300
_MOST_TAKEN = 2
"""So many samples run with other branches taken."""


@dataclass(frozen=True)
class Explored:
    """How a graph ran: with the samples or alone, on values around it or on drawn ones.

    ``results`` belong to ``feeds``. ``obstacle`` is why it could not run, ``lost`` says that this is no fault of the
    graph: what it was run on before is not there. ``around`` is what it reads where the samples do not run it, and
    ``digest`` decides about its results.
    """

    text: str
    how: How = "unchecked"
    model: ir.Model | None = None
    feeds: Runs = field(default_factory=dict[Run, Sample])
    results: Runs = field(default_factory=dict[Run, Sample])
    around: Runs = field(default_factory=dict[Run, Sample])
    obstacle: str = ""
    lost: bool = False
    taken: tuple[Path, ...] = ()
    digest: tuple[object, ...] = ()


Found = dict[Path, Explored]


class Explorer:
    """Runs the graphs inside models by themselves, the same way for all versions of a model."""

    def __init__(self, executor: Executor, engine: Engine) -> None:
        self._executor = executor
        self.engine: Engine = engine

    def explore(
        self,
        model: ir.Model,
        samples: Sequence[Sample],
        before: Found,
        *,
        same: Collection[Path] = (),
        skipped: Collection[Path] = (),
    ) -> Found:
        """Return how every graph inside a model runs.

        What was drawn for one ``before`` is taken again. Graphs that are the ``same`` do not run again on the same.
        """
        walk = _Walk(self, functions_with_bodies(model), before, same, skipped)
        walk.into(model, {(number,): sample for number, sample in enumerate(samples)}, ())
        return walk.found

    def taken(self, model: ir.Model, paths: tuple[Path, ...], samples: Sequence[Sample]) -> Explored:
        """Run a model on some samples with branches taken that these do not take."""
        text = f"with branches taken that no sample takes ({', '.join(' of '.join(reversed(path)) for path in paths)})"
        feeds = {(number,): sample for number, sample in enumerate(samples[:_MOST_TAKEN])}
        try:
            ready = self._executor.prepare(taking(model, paths), engine=self.engine, feeds=set(samples[0]))
            results = {run: _numbered(ready.run(sample).values()) for run, sample in feeds.items()}
        except OnnxPassesError as error:
            return Explored(text, "taken", obstacle=str(error), lost=True, taken=paths)
        return Explored(text, "taken", feeds=feeds, results=results, lost=True, taken=paths)

    def values(self, model: ir.Model, inside: Iterable[Body], runs: Runs) -> Iterator[tuple[Run, Sample]]:
        """Run a model for the values that its inner graphs read, on one sample after the other."""
        wanted = {str(value.name): value for body in inside for value in values_read(body)}
        given = {name for sample in runs.values() for name in sample}
        defaults = {v.name: v.const_value.numpy() for v in model.graph.inputs if v.name and v.const_value is not None}
        also = {name: value for name, value in wanted.items() if name not in given and name not in defaults}
        ready = (
            self._executor.prepare(model, also=list(also.values()), engine=self.engine, feeds=given) if also else None
        )
        for run, sample in runs.items():
            yield run, defaults | sample | ({} if ready is None else ready.run(sample, only=list(also)))

    def results(self, model: ir.Model, feed: Sample) -> Sample:
        """Run a graph as a model of its own. Raises OnnxPassesError."""
        return _numbered(self._executor.prepare(model, engine=self.engine).run(feed).values())

    def alone(self, body: Body, model: ir.Model, feeds: Runs, turns: Callable[[Run], int] | None = None) -> Explored:
        """Run a graph as a model of its own, a Loop for as many turns as given or for some beyond its end.

        Raises OnnxPassesError.
        """
        ready = self._executor.prepare(model, engine=self.engine)
        taken, results, obstacle = dict[Run, Sample](), dict[Run, Sample](), ""
        for run, first in feeds.items():
            feed: Sample | None = first
            for turn in range(_TURNS if turns is None else min(turns(run), _TURNS)):
                if feed is None or len(results) == _MOST_RUNS:
                    break
                try:
                    arrays = list(ready.run(feed).values())
                except OnnxPassesError as error:
                    obstacle = obstacle or str(error)
                    break
                number = (*run, turn) if body.is_loop else run
                taken[number] = feed
                results[number] = _numbered(arrays)
                feed = body.next_feed(feed, arrays, beyond_end=turns is None)
        return Explored(body.text, "alone" if results else "unchecked", model, taken, results, obstacle=obstacle)


@dataclass
class _Walk:
    """The way through the graphs of one model."""

    explorer: Explorer
    functions: Functions
    before: Found
    same: Collection[Path]
    skipped: Collection[Path]
    found: Found = field(default_factory=dict[Path, Explored])

    def into(self, model: ir.Model, runs: Runs, path: Path) -> None:
        """Look at the graphs that the nodes of a model hold, in some runs of it."""
        inside = [body for body in bodies(model.graph, self.functions, path) if body.path not in self.skipped]
        if not inside:
            return
        try:
            seen = self._seen(model, inside, runs)
        except OnnxPassesError as error:
            for body in inside:
                self._leave(body, f"what it reads cannot be seen: {error}", itself=True)
            return
        for body in inside:
            if len(self.found) > _MOST_BODIES:
                self._leave(body, f"the model holds more than {_MOST_BODIES} graphs", itself=True)
                continue
            taken = {run: values for run, values in seen.items() if body.ran(values)}
            if any(_is_reached(body, values) for values in taken.values()):
                self._reached(model, body, taken)
            else:
                self.found[body.path] = self._unreached(model, body, seen)

    def _seen(self, model: ir.Model, inside: Sequence[Body], runs: Runs) -> Runs:
        """Return the values that graphs read, in no more runs than it takes to know that each is reached."""
        seen = dict[Run, Sample]()
        left = list(inside)
        for run, values in self.explorer.values(model, inside, runs):
            seen[run] = values
            left = [body for body in left if self._holds_more(body) or not _is_reached(body, values)]
            if not left:
                break
        return seen

    def _holds_more(self, body: Body) -> bool:
        return any(True for _ in bodies(body.graph, self.functions))

    def _leave(self, body: Body, obstacle: str, *, itself: bool) -> None:
        """Mark the graphs in another one, and perhaps that graph itself, as not known."""
        for each in all_bodies(body.graph, self.functions, body.path):
            self.found[each.path] = Explored(each.text, obstacle=obstacle, lost=True)
        if itself:
            self.found[body.path] = Explored(body.text, obstacle=obstacle, lost=True)

    def _reached(self, model: ir.Model, body: Body, taken: Runs) -> None:
        """Go on into a graph that samples reach."""
        self.found[body.path] = Explored(body.text, "reached")
        if not self._holds_more(body):
            return
        try:
            obstacle = _obstacle(body, model.functions)
            feeds = {run: body.feed(values) for run, values in taken.items()}
            alone = body.alone(model, next(iter(feeds.values())))
            turns = {run: body.turns(values) or 1 for run, values in taken.items()}
            explored = self.explorer.alone(body, alone, feeds, turns.__getitem__)
        except (NoValueError, OnnxPassesError) as error:
            self._leave(body, str(error), itself=False)
            return
        if obstacle or not explored.results:
            self._leave(body, obstacle or explored.obstacle, itself=False)
        else:
            self.into(alone, explored.feeds, body.path)

    def _unreached(self, model: ir.Model, body: Body, seen: Runs) -> Explored:
        """Run a graph by itself: on the values around it or, where it takes none of them, on drawn ones."""
        around = _around(body, seen)
        earlier = self.before.get(body.path)
        if obstacle := _obstacle(body, model.functions):
            return self._give_up(body, obstacle, around)
        if earlier is not None and earlier.how == "drawn":
            return self._drawn(model, body, earlier.feeds, around)
        try:
            feeds = {run: body.feed(values) for run, values in seen.items()}
            if earlier is not None and body.path in self.same and _is_fed(earlier, feeds, body):
                self.found.update((path, known) for path, known in self.before.items() if _is_in(path, body.path))
                return earlier
            alone = body.alone(model, next(iter(feeds.values())))
            explored = self.explorer.alone(body, alone, feeds)
        except (NoValueError, OnnxPassesError) as error:
            explored = Explored(body.text, obstacle=str(error), lost=isinstance(error, NoValueError))
        if explored.model is not None and explored.results:
            self.into(explored.model, explored.feeds, body.path)
            return explored
        if earlier is not None and earlier.how == "alone":
            return self._give_up(body, explored.obstacle, around, lost=explored.lost)
        return self._drawn(model, body, {}, around)

    def _drawn(self, model: ir.Model, body: Body, given: Runs, around: Runs) -> Explored:
        """Run a graph on values that are drawn for its inputs, or were before."""
        try:
            alone = body.alone(model)
            types = _types(alone.graph)
            samples = {run[:1]: feed for run, feed in given.items()} or {
                (number,): sample for number, sample in enumerate(generate(alone))
            }
            # A step may have changed the type of an input since.
            feeds = {
                run: {name: in_float_type(sample[name], types[name]) for name in types}
                for run, sample in samples.items()
            }
            explored = self.explorer.alone(body, alone, feeds, lambda _: 1)
        except (KeyError, NoValueError, OnnxPassesError) as error:
            obstacle = f"{error} was not there before" if isinstance(error, KeyError) else str(error)
            return self._give_up(body, obstacle, around, lost=not isinstance(error, OnnxPassesError))
        if not explored.results:
            return self._give_up(body, explored.obstacle, around)
        self.into(alone, explored.feeds, body.path)
        return replace(explored, how="drawn", around=around)

    def _give_up(self, body: Body, obstacle: str, around: Runs, *, lost: bool = False) -> Explored:
        self._leave(body, obstacle, itself=False)
        return Explored(body.text, around=around, obstacle=obstacle, lost=lost)


def _is_reached(body: Body, values: Sample) -> bool:
    """Return whether a graph runs on values; what depends on the turn of a Loop shows in the second one."""
    return bool(body.ran(values)) and not (body.is_loop and body.turns(values) == 1)


def _is_in(path: Path, other: Path) -> bool:
    return path[: len(other)] == other


def _is_fed(earlier: Explored, feeds: Runs, body: Body) -> bool:
    """Return whether a graph ran alone on these inputs, bit by bit."""
    first = {(*run, 0) if body.is_loop else run: feed for run, feed in feeds.items()}
    ran = earlier.feeds.keys() & first.keys()
    if earlier.how != "alone" or earlier.obstacle or not ran:
        return False
    return all(compare(earlier.feeds[run], first[run]).equal for run in ran)


def untaken(found: Found) -> tuple[Path, ...]:
    """Return the branches of the model, one of each If, that run alone."""
    untaken = {path[0]: path for path, explored in found.items() if len(path) == 2 and explored.how == "alone"}
    return tuple(path for path in untaken.values() if path[1] in ("then_branch", "else_branch"))


def taking(model: ir.Model, paths: Collection[Path]) -> ir.Model:
    """Return a copy of a model that takes some branches whatever the conditions are."""
    copied = copy_model(model)
    for body in [body for body in bodies(copied.graph, {}) if body.path in paths]:
        body.take()
    return copied


def _numbered(arrays: Iterable[np.ndarray]) -> Sample:
    """Name results by their place: steps may rename them."""
    return {f"result {at}": array for at, array in enumerate(arrays)}


def in_float_type(array: np.ndarray | list[np.ndarray], dtype: np.dtype | None) -> Any:
    """Convert floats to the type that others have; what is not a tensor of floats stays as it is."""
    if isinstance(array, list) or dtype is None or kind_of(array.dtype) is not Kind.FLOAT:
        return array
    return array.astype(dtype) if kind_of(dtype) is Kind.FLOAT else array


def type_of(array: np.ndarray | list[np.ndarray] | None) -> np.dtype | None:
    """Return the type of a tensor, None for anything else."""
    return None if array is None or isinstance(array, list) else array.dtype


def _types(graph: ir.Graph) -> dict[str, np.dtype | None]:
    return {str(value.name): None if value.dtype is None else value.dtype.numpy() for value in graph.inputs}


def _obstacle(body: Body, functions: Functions) -> str:
    return "it computes something else each time" if any(draws(node, functions) for node in body.graph) else ""


def _around(body: Body, seen: Runs) -> Runs:
    names = [str(value.name) for value in values_read(body)]
    return {run: {name: values[name] for name in names if name in values} for run, values in seen.items()}
