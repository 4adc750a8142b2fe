"""Branches that no sample took and loops without a turn: run alone before and after, or known to be unchecked."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir
from onnx_ir.passes.common import InlinePass

from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.core.walk import all_nodes, holds_graphs
from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.hashing.fingerprint import Fingerprinter
from onnx_passes.graph.hashing.semantics import version_of
from onnx_passes.graph.randomness import is_random
from onnx_passes.verify.comparison.compare import compare
from onnx_passes.verify.comparison.promise import Promise
from onnx_passes.verify.local.bodies import Body, NoValueError, Path, all_bodies, bodies, values_read
from onnx_passes.verify.run.execute import Engine, Executor, Sample
from onnx_passes.verify.samples.generate import generate

NEVER_RAN = "branch never ran"


@dataclass(frozen=True)
class Alone:
    """What a graph gave by itself: results by number of the sample, and the samples if they were generated."""

    text: str
    results: Mapping[int, Sample] = field(default_factory=dict[int, Sample])
    generated: Sequence[Sample] = ()
    obstacle: str = ""


Found = dict[Path, Alone]
_Digest = tuple[bytes, tuple[int | None, ...]]
"""The structure of a graph, and the versions since which its operators mean what they do."""


class Unreached:
    """The graphs inside a model that its samples do not reach, and what they gave at first and last."""

    @staticmethod
    def concerns(model: ir.Model) -> bool:
        """Tell whether a model has graphs that may not run."""
        return any(map(holds_graphs, model.graph)) or _calls_hide_graphs(model)

    def __init__(self, model: ir.Model, samples: Sequence[Sample], executor: Executor, engine: Engine) -> None:
        self._executor = executor
        self._engine: Engine = engine
        self.samples = samples
        self._identity = Fingerprinter.within_run()
        self._digests = self._digest(model)
        self._touched: dict[int, set[Path]] = {}
        self._latest: Found = {}
        self._is_fresh = False
        self.original = self.current = self._explore(model, {})

    def complaint(self, model: ir.Model, promise: Promise) -> str:
        """Say what is wrong in graphs that do not run."""
        reference = self.current if promise.is_equality else self.original
        self._latest, self._is_fresh = self._explore(model, reference), True
        for path, old in reference.items():
            new = self._latest.get(path)
            if new is None:
                continue
            for number, expected in old.results.items():
                wrong = _difference(expected, new, number, promise)
                if wrong:
                    return f"{old.text}, which no sample reached, alone: {wrong}"
        return ""

    def accept(self, *, as_original: bool = False) -> None:
        """Go on from what the last complaint looked at."""
        if not self._is_fresh:
            return
        self._is_fresh = False
        kept = {path: new if new.results else self.current.get(path, new) for path, new in self._latest.items()}
        self.current = kept
        if as_original:
            self.original = kept

    def follow(self, samples: Sequence[Sample]) -> None:
        """Go on with other samples, after the interface changed; what was known belongs to the old ones."""
        self.samples, self.original, self.current = samples, {}, {}

    def note(self, step: int, model: ir.Model) -> None:
        """Remember which graphs a step changed."""
        digests = self._digest(model)
        self._touched[step] = {path for path, digest in digests.items() if self._digests.get(path) != digest}
        self._digests = digests

    def unchecked(self, step: int) -> str:
        """Name a graph that a step changed and that ran neither by itself nor with the model."""
        for path in self._touched.get(step, ()):
            new = self._latest.get(path)
            if new is not None and not (new.results and self.original.get(path, new).results):
                return new.text
        return ""

    def _digest(self, model: ir.Model) -> dict[Path, _Digest]:
        flat = _flat(model)
        versions = functools.partial(version_of, imports=flat.graph.opset_imports)
        return {
            body.path: (self._identity.structural(body.graph), tuple(map(versions, all_nodes(body.graph))))
            for body in all_bodies(flat.graph)
        }

    def _explore(self, model: ir.Model, before: Found) -> Found:
        found: Found = {}
        self._walk(_flat(model), list(enumerate(self.samples)), (), before, found)
        return found

    def _walk(
        self, model: ir.Model, samples: list[tuple[int, Sample]], path: Path, before: Found, found: Found
    ) -> None:
        inside = list(bodies(model.graph, path))
        if not inside:
            return
        try:
            seen = self._values(model, inside, samples)
        except OnnxPassesError as error:
            found.update((body.path, Alone(body.text, obstacle=str(error))) for body in inside)
            return
        for body in inside:
            taken = [number for number, values in seen.items() if body.ran(values)]
            if taken:
                seen_there = {number: seen[number] for number in taken}
                if any(True for _ in bodies(body.graph)):
                    self._run(model, body, seen_there, before, found)
            else:
                found[body.path] = self._run(model, body, seen, before, found)

    def _values(self, model: ir.Model, inside: Iterable[Body], samples: list[tuple[int, Sample]]) -> dict[int, Sample]:
        """Run a model for the values that its inner graphs read."""
        wanted = {str(value.name): value for body in inside for value in values_read(body)}
        given = {name for _, sample in samples for name in sample}
        defaults = {v.name: v.const_value.numpy() for v in model.graph.inputs if v.name and v.const_value is not None}
        also = {name: value for name, value in wanted.items() if name not in given and name not in defaults}
        ready = self._executor.prepare(model, also=list(also.values()), engine=self._engine, feeds=given)
        return {number: defaults | sample | ready.run(sample, only=list(also)) for number, sample in samples}

    def _run(self, model: ir.Model, body: Body, seen: Mapping[int, Sample], before: Found, found: Found) -> Alone:
        """Run a graph by itself: on the values around it or, where it takes none of them, on generated ones."""
        if any(map(is_random, all_nodes(body.graph))):
            return Alone(body.text, obstacle="it computes something else each time")
        earlier = before.get(body.path)
        if earlier is not None and earlier.generated:
            return self._run_generated(model, body, earlier.generated, before, found)
        try:
            feeds = [(number, body.feed(values)) for number, values in seen.items()]
            results, obstacle = self._results(body.alone(model, feeds[0][1]), feeds) if feeds else ({}, "")
        except (NoValueError, OnnxPassesError) as error:
            feeds, results, obstacle = [], {}, str(error)
        if results:
            taken = [(number, feed) for number, feed in feeds if number in results]
            self._walk(body.alone(model, taken[0][1]), taken, body.path, before, found)
            return Alone(body.text, results, obstacle=obstacle)
        if earlier is not None and earlier.results:
            return Alone(body.text, obstacle=obstacle or "the values that it reads are gone")
        return self._run_generated(model, body, (), before, found)

    def _run_generated(
        self, model: ir.Model, body: Body, given: Sequence[Sample], before: Found, found: Found
    ) -> Alone:
        try:
            alone = body.alone(model)
            names = [str(value.name) for value in alone.graph.inputs]
            samples = given or generate(alone)
            feeds = [(number, {name: sample[name] for name in names}) for number, sample in enumerate(samples)]
            results, obstacle = self._results(alone, feeds)
        except KeyError as error:
            return Alone(body.text, obstacle=f"{error} was not there before")
        except (NoValueError, OnnxPassesError) as error:
            return Alone(body.text, obstacle=str(error))
        if results:
            self._walk(alone, [(n, feed) for n, feed in feeds if n in results], body.path, before, found)
        return Alone(body.text, results, samples if results else (), obstacle)

    def _results(self, alone: ir.Model, feeds: Sequence[tuple[int, Sample]]) -> tuple[dict[int, Sample], str]:
        ready = self._executor.prepare(alone, engine=self._engine)
        results: dict[int, Sample] = {}
        obstacle = ""
        for number, feed in feeds:
            try:
                arrays = ready.run(feed)
            except OnnxPassesError as error:
                obstacle = str(error)
            else:
                results[number] = {f"result {at}": array for at, array in enumerate(arrays.values())}
        return results, obstacle


def _calls_hide_graphs(model: ir.Model) -> bool:
    return any(holds_graphs(node) for function in model.functions.values() for node in function)


def _flat(model: ir.Model) -> ir.Model:
    """Return a model whose functions hold no graphs: where they do, a copy with all calls written out."""
    return InlinePass()(copy_model(model)).model if _calls_hide_graphs(model) else model


def _difference(expected: Sample, found: Alone, number: int, promise: Promise) -> str:
    if number not in found.results:
        return f"it no longer runs: {found.obstacle}"
    wrong = promise.broken(compare(expected, found.results[number]))
    return "" if wrong is None else wrong.message()
