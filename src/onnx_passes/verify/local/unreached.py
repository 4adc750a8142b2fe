"""Branches that no sample took and loops without a turn: run alone before and after, or known to be unchecked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import onnx_ir as ir

from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.core.evidence import BodyEvidence
from onnx_passes.core.records import Application
from onnx_passes.core.walk import all_nodes, holds_graphs
from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.functions import MOST_NODES, expanded_size
from onnx_passes.graph.hashing.fingerprint import Fingerprinter, used_functions
from onnx_passes.graph.hashing.semantics import version_of
from onnx_passes.graph.liveness import LiveParts
from onnx_passes.verify.comparison.compare import Comparison, compare
from onnx_passes.verify.comparison.evidence import NONE, Promise, Rounding
from onnx_passes.verify.comparison.noise import Noise
from onnx_passes.verify.local.bodies import Body, Path, all_bodies, functions_with_bodies
from onnx_passes.verify.local.exploring import (
    TAKEN,
    Explored,
    Explorer,
    Found,
    Run,
    in_float_type,
    taking,
    type_of,
    untaken,
)
from onnx_passes.verify.run.execute import Engine, Executor, Sample, TimeLimitError
from onnx_passes.verify.ties.decisions import decisions_of

_GONE = "it is gone, and no other graph computes the same"
_UNREAD = "nothing reads it any more"
_NEW = "no graph that was there before computes the same"


@dataclass(frozen=True)
class _State:
    """What decides about the results of a graph.

    It may go if nothing reads its results (``is_dead``), or constants keep it from running.
    """

    body: Body
    digest: tuple[object, ...]
    is_dead: bool
    never_runs: bool


@dataclass(frozen=True)
class _Wrong:
    """How results are not as promised; uncertain where a shorter type overflows, or levels may flip at ties."""

    text: str
    is_certain: bool = True


class Unreached:
    """The graphs inside a model that its samples do not reach, and what they gave at first and last.

    A graph is known by where it hangs. Where steps rename or move it, it is known by its results; one that is found in
    neither way is not checked.
    """

    @staticmethod
    def concerns(model: ir.Model) -> bool:
        """Return whether a model has graphs that may not run."""
        return any(map(holds_graphs, model.graph)) or bool(functions_with_bodies(model))

    def __init__(
        self, source: Callable[[], ir.Model], samples: Sequence[Sample], executor: Executor, engine: Engine
    ) -> None:
        model = source()
        self._source, self._given = source, samples
        self._executor = executor
        self._explorer = Explorer(executor, engine)
        self.samples = samples
        self._identity = Fingerprinter.within_run()
        self._names: dict[Path, str] = {}
        self._states = self._look(model)
        self._touched: dict[int, set[Path]] = {}
        self._gone: dict[int, set[Path]] = {}
        self._pending: list[int] = []
        """The steps since the model was accepted last."""
        self._died: set[Path] = set()
        """What nothing reads since the model was accepted last: it may be that something should."""
        self._settled: set[Path] = set()
        self._doubts: dict[Path, str] = {}
        self._follows = False
        """Whether the interface changed since the last complaint: then results need not be those of before."""
        self._origins: dict[Path, Path] = {}
        self._sources: dict[Path, Path] = {}
        """Where graphs that moved were in the original model."""
        self._latest: Found = {}
        self.inexact: list[Comparison] = []
        """How results differ that the last complaint left in peace."""
        self._is_fresh = False
        self._is_explored = self._is_accepted = False
        self._moves: list[dict[Path, Path]] = []
        """Where graphs moved before the original model was explored."""
        self.original: Found = {}
        self.current: Found = {}

    @property
    def counts(self) -> tuple[int, int, int]:
        """Count the graphs inside the model, and of them those that samples reach and those that ran alone."""
        hows = [found.how for path, found in self.original.items() if path]
        return len(hows), hows.count("reached"), hows.count("alone") + hows.count("drawn")

    def complaint(self, model: ir.Model, promise: Promise) -> str:
        """Return the first violation in graphs that samples do not reach, or an empty text."""
        self._explore_original()
        reference = self.current if promise.is_equality else self.original
        latest = self._explore(model, self.samples, reference)
        if (paths := untaken(latest)) and paths == untaken(reference):
            self._take_in_original(paths)
            latest[TAKEN] = self._explorer.taken(model, paths, self.samples)
        self._latest, self._is_fresh, self._doubts, self._origins = latest, True, {}, {}
        self.inexact = []
        for path, old in reference.items():
            new = latest.get(path)
            if old.how == "reached" or new is None or new.how == "reached":
                continue
            wrong = self._wrong_if_taken(old, new, promise) if path == TAKEN else self._wrong(old, new, promise)
            if wrong is not None and wrong.is_certain and not self._follows:
                return f"{_told(old)}: {wrong.text}"
            doubt = _doubt(old, new, promise) if wrong is None else wrong.text
            if doubt and path != TAKEN:
                self._doubts[path] = f"after a change of the interface: {doubt}" if self._follows else doubt
        self._match(reference, latest, promise)
        if self._pending:
            # A change around a graph is that of no graph; whose it is shows only in a run after each step.
            known = set[Path]().union(*(self._touched[step] for step in self._pending))
            self._touched[self._pending[-1]] |= self._doubts.keys() - known
        return ""

    def _explore(
        self, model: ir.Model, samples: Sequence[Sample], reference: Found, skipped: Collection[Path] = ()
    ) -> Found:
        """Return how the graphs of a model run; those that are known need not run again."""
        digests = {path: state.digest for path, state in self._look(model).items()}
        same = {path for path, old in reference.items() if path in digests and old.digest == digests[path]}
        if digests.keys() == same and all(old.how == "reached" for old in reference.values()):
            return reference
        found = self._explorer.explore(model, samples, reference, same=same, skipped=skipped)
        return {path: replace(new, digest=digests.get(path, ())) for path, new in found.items()}

    def _explore_original(self) -> None:
        """Run the unreached graphs of the original model, when it is first compared with.

        Graphs that went away by then, as constants keep them from running, are left out.
        """
        if self._is_explored:
            return
        model, self._is_explored = self._source(), True
        found = self._explore(model, self._given, {}, self._settled)
        for moves in self._moves:
            found = _moved(found, moves)
        self.original = self.current = found

    def _take_in_original(self, paths: tuple[Path, ...]) -> None:
        """Run the original model with branches taken, unless graphs were moved or accepted since."""
        if not self._is_accepted and TAKEN not in self.original and not any(self._moves):
            self.original[TAKEN] = self._explorer.taken(self._source(), paths, self._given)

    def accept(self, *, as_original: bool = False) -> None:
        """Go on from what the last complaint looked at."""
        if not self._is_fresh:
            return
        self._is_fresh = self._follows = False
        self._is_accepted = True
        self._pending, self._died = [], set()
        # What does not run any more is not what later steps are held to.
        kept = {
            path: new if new.how != "unchecked" else self.current.get(path, new) for path, new in self._latest.items()
        }
        self.original = {
            path: new if as_original or path in self._doubts else self.original.get(self._origins.get(path, path), new)
            for path, new in kept.items()
        }
        self.current = kept

    def follow(self, samples: Sequence[Sample]) -> None:
        """Go on with samples in the form of another interface."""
        self._is_fresh = False
        if any(not compare(old, new).equal for old, new in zip(self.samples, samples, strict=True)):
            self.samples, self._follows = samples, True

    def add(self, application: Application) -> None:
        """Look at what a rewrite takes out: by now constants may keep it from running."""
        for node in filter(holds_graphs, application.matched):
            result = next((value.name for value in node.outputs if value.name), "")
            held = {
                path: state.body
                for path, state in self._states.items()
                if state.body.node is node or path[-2] == result
            }
            self._settled |= {path for path, body in held.items() if replace(body, node=node).never_runs}

    def note(self, step: int, model: ir.Model) -> None:
        """Remember which graphs a step changed, added or removed."""
        before, after = self._states, self._look(model)
        self._states = after
        moves, gone = _moves(before, after, step)
        self._move(moves)
        before = {moves.get(path, path): state for path, state in before.items()}
        paths = {path: (before.get(path), after.get(path)) for path in before.keys() | after.keys()}
        touched = {path for path, (old, new) in paths.items() if old is None or new is None or old.digest != new.digest}
        died = {path for path, state in after.items() if state.is_dead and path in before}
        died = {path for path in died if not (before[path].is_dead or before[path].never_runs)}
        self._settled |= {
            path for path in gone if before[path].never_runs or (before[path].is_dead and path not in self._died)
        }
        self._died |= died
        self._gone[step] = gone | died
        self._touched[step] = touched | died | set(moves.values())
        self._pending.append(step)

    def _move(self, moves: dict[Path, Path]) -> None:
        """Know graphs by the place where they hang now."""
        if not moves:
            return
        if self._is_explored:
            self.original, self.current = _moved(self.original, moves), _moved(self.current, moves)
        else:
            self._moves.append(moves)
        origins = {new: self._sources.get(old, old) for old, new in moves.items()}
        self._sources = {path: at for path, at in self._sources.items() if path not in moves} | origins
        self._names |= {new: self._names[old] for old, new in moves.items() if new not in self._states}
        for known in (self._settled, self._died, *self._touched.values(), *self._gone.values()):
            moved = {moves.get(path, path) for path in known}
            known.clear()
            known.update(moved)

    def evidence(self, step: int) -> tuple[BodyEvidence, ...]:
        """Return how the graphs that a step changed ran."""
        found = (self._evidence(step, path) for path in sorted(self._touched.get(step, ())))
        return tuple(body for body in found if body is not None)

    def _evidence(self, step: int, path: Path) -> BodyEvidence | None:
        new, doubt = self._latest.get(path), self._doubts.get(path, "")
        if new is None:
            is_gone = doubt and path in self._gone[step]
            return BodyEvidence(self._names[path], "unchecked", reason=doubt) if is_gone else None
        if doubt == _UNREAD and path not in self._gone[step]:
            doubt = ""
        for explored in (new, self.original.get(path, new)):
            doubt = doubt or explored.obstacle * (explored.how == "unchecked")
        if doubt:
            return BodyEvidence(new.text, "unchecked", reason=doubt)
        # Samples that reach it in another graph which they do not reach are those of that graph.
        around = [self._latest[path[:end]] for end in range(2, len(path), 2) if path[:end] in self._latest]
        ran = next((explored for explored in (new, *reversed(around)) if explored.how != "reached"), new)
        return BodyEvidence(new.text, ran.how, len(ran.results))

    def _match(self, reference: Found, latest: Found, promise: Promise) -> None:
        """Find the graphs that hang elsewhere now by their results; others are in doubt."""
        lost = {path: old for path, old in reference.items() if _runs_elsewhere(old, latest.get(path))}
        for path, new in latest.items():
            state = self._states.get(path)
            if not _runs_elsewhere(new, reference.get(path)) or (state is not None and state.never_runs):
                continue
            origin = next((at for at, old in lost.items() if _is_known(old, new) and _holds(old, new, promise)), None)
            if origin is None:
                self._doubts[path] = new.obstacle or _NEW
            else:
                self._origins[path] = origin
                del lost[origin]
        gone = {path: _GONE for path in lost if path not in latest}
        gone |= {path: _UNREAD for path in self._died if path in latest and not _is_reached(path, reference)}
        for path in sorted(gone, key=len):
            # Where it does not run by itself, other samples may take it.
            if not self._is_settled(path) and reference[path].how == "alone" and self._is_impossible(path):
                self._settled.add(path)
        self._doubts.update({path: why for path, why in gone.items() if not self._is_settled(path)})

    def _is_settled(self, path: Path) -> bool:
        return any(path[:end] in self._settled for end in range(2, len(path) + 1, 2))

    def _is_impossible(self, path: Path) -> bool:
        """Return whether the original model runs on no sample if it is made to take a branch.

        Branches around it are taken, too: samples with which the model does not run then say nothing.
        """
        path = self._sources.get(path, path)
        around = [path[:end] for end in range(2, len(path), 2)]
        runs = self._runs_taking(around, self._given) if around else self._given
        return bool(runs) and not self._runs_taking([*around, path], runs)

    def _runs_taking(self, paths: Sequence[Path], samples: Sequence[Sample]) -> Sequence[Sample]:
        """Return the samples on which the original model runs if it takes branches; all if that is not known."""
        model = self._source()
        inside = {body.path: body for body in all_bodies(model.graph, functions_with_bodies(model))}
        bodies = [inside[path] for path in paths if path in inside]
        if len(bodies) < len(paths) or not bodies[-1].take():
            return samples
        for body in bodies[:-1]:
            body.take()
        try:
            ready = self._executor.prepare(model, engine=self._explorer.engine)
            return ready.run_each(samples, all_must_run=False)[0]
        except TimeLimitError:
            return samples
        except OnnxPassesError:
            return ()

    def _wrong(self, old: Explored, new: Explored, promise: Promise) -> _Wrong | None:
        """Return what is wrong with the results of a graph, if they are there to be compared."""
        for run, expected in old.results.items():
            if run not in new.results:
                return None if new.lost else _Wrong(f"it no longer runs: {new.obstacle}")
            comparison = _compare(expected, new.results[run], promise)
            if not comparison.equal:
                self.inexact.append(comparison)
            if promise.broken(comparison) is None:
                continue
            known = self._rounding(old, old.feeds[run], promise)
            wrong = promise.broken(comparison, known)
            if wrong is not None and not self._differs_before(old, new, run, promise):
                overflows = promise.unit and (wrong.nan or wrong.infinite)
                flips = not promise.is_equality and old.model is not None and decisions_of(old.model.graph)
                return _Wrong(promise.describe(wrong, known), not (overflows or flips))
        return None

    def _wrong_if_taken(self, old: Explored, new: Explored, promise: Promise) -> _Wrong | None:
        """Return what is wrong with the results of the model if it takes other branches."""
        wrong = self._wrong(old, new, promise) if old.taken == new.taken else None
        if wrong is None or promise.is_equality:
            return wrong
        if self.samples is not self._given:
            return None
        return self._wrong(replace(old, model=taking(self._source(), old.taken)), new, promise)

    def _rounding(self, old: Explored, feed: Sample, promise: Promise) -> Rounding:
        """Return how far rounding moves the results of a graph by itself."""
        if promise.claim.kind != "tolerance" or old.model is None:
            return NONE
        # Noise is put into the model.
        model = copy_model(old.model)
        outputs = [value for value in model.graph.outputs if value.producer() is not None]
        names = {str(value.name): f"result {at}" for at, value in enumerate(model.graph.outputs)}
        try:
            bounds = Noise(model, outputs, self._executor, unit=promise.unit).bound(feed)
        except OnnxPassesError:
            return NONE
        return {names[name]: bound for name, bound in bounds.items()}

    def _differs_before(self, old: Explored, new: Explored, run: Run, promise: Promise) -> bool:
        """Return whether a tolerance holds for what a graph reads, and for its results on what it reads now."""
        given, feed = old.feeds[run], new.feeds[run]
        if promise.claim.kind != "tolerance" or old.model is None or given.keys() != feed.keys():
            return False
        if not promise.holds(_compare(given, feed, promise)):
            return False
        feed = {name: in_float_type(feed[name], type_of(given[name])) for name in given}
        try:
            expected = self._explorer.results(old.model, feed)
        except OnnxPassesError:
            return False
        comparison = _compare(expected, new.results[run], promise)
        return promise.holds(comparison, self._rounding(old, feed, promise))

    def _look(self, model: ir.Model) -> dict[Path, _State]:
        if model.functions and expanded_size(model) > MOST_NODES:
            # Such a model does not run.
            return {}
        functions, imports = functions_with_bodies(model), model.graph.opset_imports
        dead = set(LiveParts(model.graph).cut_off())
        called = {function: self._identity.structural(function) for function in model.functions.values()}
        found: dict[Path, _State] = {}
        for body in all_bodies(model.graph, functions):
            self._names[body.path] = body.text
            structure, captured = self._identity.body(body.graph)
            operators = {node.op_identifier() for node in all_nodes(body.graph)}
            found[body.path] = _State(
                body,
                (
                    structure,
                    tuple(value.name for value in captured),
                    tuple(version_of(node, imports) for node in all_nodes(body.graph)),
                    tuple(called[function] for function in used_functions(model, operators)),
                ),
                body.node in dead or any(path in found and found[path].is_dead for path in body.around),
                body.never_runs,
            )
        return found


def _told(explored: Explored) -> str:
    return explored.text if explored.how == "taken" else f"{explored.text}, which no sample reached, alone"


def _moved(found: Found, moves: Mapping[Path, Path]) -> Found:
    return {moves.get(path, path): explored for path, explored in found.items()} if moves else found


def _moves(
    before: Mapping[Path, _State], after: Mapping[Path, _State], step: int
) -> tuple[dict[Path, Path], set[Path]]:
    """Return where graphs hang now that hang elsewhere, and the places of those that are gone.

    A graph stays with its node, whatever its results are called now. Where the node is another one, it stays at its
    place, or it was renamed if one graph alone comes into question. One that is gone while another has its place gets
    a place that no graph has.
    """
    moves: dict[Path, Path] = {}
    gone = set[Path]()
    holders: dict[tuple[int, str], list[Path]] = {}
    for path, state in after.items():
        holders.setdefault((id(state.body.node), path[-1]), []).append(path)
    kept: dict[Path, Path] = {}
    for path, state in before.items():
        places = holders.get((id(state.body.node), path[-1]), [])
        if path in places:
            kept[path] = path
        elif len(places) == 1 and (places[0] not in before or before[places[0]].body.node is not state.body.node):
            # The nodes of a function are found wherever it is called.
            kept[path] = places[0]
    fresh = after.keys() - kept.values()
    for path in sorted(before, key=len):
        at = kept.get(path, path if path in fresh else None)
        if at is None:
            around = moves.get(path[:-2], path[:-2])
            likely = [new for new in fresh - before.keys() if (new[:-2], new[-1]) == (around, path[-1])]
            likely = [new for new in likely if after[new].digest[0] == before[path].digest[0]]
            at = likely[0] if len(likely) == 1 else None
        if at is None:
            at = (*moves.get(path[:-2], path[:-2]), *path[-2:])
            at = (*at[:-2], f"{at[-2]} before step {step}", at[-1]) if at in after else at
            gone.add(at)
        fresh -= {at}
        if at != path:
            moves[path] = at
    return moves, gone


def _is_reached(path: Path, found: Found) -> bool:
    return path not in found or found[path].how == "reached"


def _runs_elsewhere(explored: Explored, there: Explored | None) -> bool:
    """Return whether no graph at the place of an unreached one is unreached, too."""
    return explored.how not in ("reached", "taken") and (there is None or there.how == "reached")


def _is_known(old: Explored, new: Explored) -> bool:
    return bool(old.results) and old.how == new.how and old.results.keys() == new.results.keys()


def _holds(old: Explored, new: Explored, promise: Promise) -> bool:
    return all(promise.holds(_compare(expected, new.results[run], promise)) for run, expected in old.results.items())


def _compare(old: Sample, new: Sample, promise: Promise) -> Comparison:
    """Compare results, in the type of the old ones if the promise is about another one."""
    if promise.unit:
        new = {name: in_float_type(array, type_of(old.get(name))) for name, array in new.items()}
    return compare(old, new)


def _doubt(old: Explored, new: Explored, promise: Promise) -> str:
    """Return why two graphs are not known to compute the same, or an empty text."""
    if old.results and not new.results:
        return new.obstacle
    if new.how == "alone":
        return ""
    for run, values in old.around.items():
        others = new.around.get(run, {})
        if values.keys() != others.keys() or not promise.holds(_compare(values, others, promise)):
            return "the values that it reads are others"
    return ""
