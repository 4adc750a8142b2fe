"""``onnx_passes.open``: a model to work on step by step, with every step verified and every way back open."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import onnx_ir as ir

from onnx_passes.api import Result, apply, run_model, run_plan
from onnx_passes.check.settings import Settings
from onnx_passes.check.verdict import Verdict, check
from onnx_passes.check.verification import Verification
from onnx_passes.core.claims import Claim
from onnx_passes.core.compose import PassLike
from onnx_passes.core.display import Displayed
from onnx_passes.core.errors import ExitCode, ModelError, OnnxPassesError, UsageError, did_you_mean
from onnx_passes.core.measure import count_nodes
from onnx_passes.core.naming import kebab
from onnx_passes.core.plan import plan
from onnx_passes.core.records import StepRecord
from onnx_passes.debug.attempts import Attempt
from onnx_passes.debug.why_not import RuleReport, WhyNot, why_not
from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.diff import ModelDiff, diff
from onnx_passes.graph.find_node import Place
from onnx_passes.graph.load import Source, load
from onnx_passes.graph.origin import title_of
from onnx_passes.graph.save import External, SaveReport, Target, save
from onnx_passes.history.events import Ancestry
from onnx_passes.history.recording import Recording
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.rule import Rule
from onnx_passes.session.data import Data, plan_of
from onnx_passes.session.failed import FailedStep
from onnx_passes.session.finding import Matches, Miss, containers, find
from onnx_passes.session.states import SessionState, StateHistory
from onnx_passes.session.writing import Passes, PipelineText, pipeline_of, with_options
from onnx_passes.verify.comparison.evidence import level_of_run
from onnx_passes.verify.run.execute import ExecutionError
from onnx_passes.verify.run.loadable import as_writable
from onnx_passes.verify.samples.reference import Array
from onnx_passes.verify.samples.sources import listed

Other: TypeAlias = "int | SessionState | Session | Source"
"""The object of a comparison: a step by number, a branch by name, or a model in any form."""
MAIN = "main"


def open(  # noqa: A001 - it is called as onnx_passes.open
    model: Source, *, inputs: Any = (), verify: bool | Verification = True
) -> Session:
    """Open a model, given as for ``apply``, to work on it step by step.

    ``inputs`` are data as for ``apply``, or one sample as an array or a mapping; every step is verified on them or, by
    default, on generated ones. ``verify`` disables that, or sets its options.
    """
    loaded = load(model)
    held = loaded is model or getattr(model, "model", None) is loaded
    given = listed(inputs)
    if not given and isinstance(verify, Verification):
        given = list(verify.inputs)
    seed = verify.seed if isinstance(verify, Verification) else 0
    return Session(SessionState(copy_model(loaded) if held else loaded), Data(given, seed), verify)


class Session(Displayed):
    """A model, its history, and undo.

    ``apply`` adds a new state, ``undo`` and ``redo`` move along the history without running anything. Functions that
    accept a model accept a session for its current one. ``failure`` is the last step that failed; the session stays on
    the one before it.
    """

    def __init__(
        self,
        state: SessionState,
        data: Data,
        verify: bool | Verification,
        name: str = MAIN,
        branches: dict[str, Session] | None = None,
    ) -> None:
        self.name = name
        self.failure: FailedStep | None = None
        self._state = state
        self._data = data
        self._verify = verify
        self._undone: list[SessionState] = []
        self._branches = {} if branches is None else branches
        self._branches[name] = self
        self._replay: tuple[SessionState, Result] | None = None

    @property
    def model(self) -> ir.Model:
        """Return the current model; copy it to change it by hand."""
        return self._state.model

    @property
    def original(self) -> ir.Model:
        """Return the original model."""
        return self._state.path()[0].model

    @property
    def steps(self) -> StateHistory:
        """Return the states from the original to the current one, and the undone ones."""
        return StateHistory((*self._state.path(), *reversed(self._undone)), self._state.number)

    @property
    def branches(self) -> dict[str, Session]:
        """Return all branches by name; the first one is called main."""
        return dict(self._branches)

    @property
    def pipeline(self) -> PipelineText:
        """Return the pipeline text of the session: the command line reproduces its model from the original."""
        return pipeline_of(self._state.path())

    def apply(self, what: Passes, /, *, verify: bool | None = None, **options: object) -> Result:
        """Apply passes to the current state: pipeline text, a name, class or object of a pass, or a rule.

        ``options`` are those of the single named pass; ``verify`` overrides the setting of the session.
        """
        planned = plan(with_options(what, options))
        passes = planned.requested
        self.failure = None
        verification = self._verification(verify)
        try:
            result = apply(self.model, passes, inputs=self._inputs(), verify=verification)
        except (OnnxPassesError, ir.passes.InvariantError) as error:
            if getattr(error, "exit_code", None) is not ExitCode.USAGE:
                self.failure = FailedStep(self._state, error, planned, self._data, verification)
            raise
        self._state = self._state.then(result)
        self._undone.clear()
        return result

    def undo(self, steps: int = 1) -> Session:
        """Go back to the state before the last step, or before the last few."""
        if not 1 <= steps <= self._state.number:
            done = f"{self._state.number} step{'' if self._state.number == 1 else 's'}"
            raise UsageError(f"cannot undo {steps} of {done}", hint="'steps' shows them")
        self.failure = None
        for _ in range(steps):
            assert self._state.parent is not None
            self._undone.append(self._state)
            self._state = self._state.parent
        return self

    def redo(self, steps: int = 1) -> Session:
        """Redo undone steps."""
        if not 1 <= steps <= len(self._undone):
            raise UsageError(
                f"cannot redo {steps} of {len(self._undone)} undone", hint="'apply' forgets what was undone"
            )
        self.failure = None
        for _ in range(steps):
            self._state = self._undone.pop()
        return self

    def branch(self, name: str) -> Session:
        """Start a branch here and return it: a new session with the same history; this one is unchanged."""
        if name == self.name:
            raise UsageError(f"this is branch '{name}'", hint="choose another name")
        return Session(self._state, self._data, self._verify, name, self._branches)

    def find(self, what: str | Rule | Callable[..., Any]) -> Matches:
        """Find nodes: ``"Conv"``, ``"Conv > Relu"``, ``"Relu(x) + y"``, a pattern function or a rule."""
        return find(self.model, what)

    def matches(self, what: PassLike | Rule, /, **options: object) -> Matches:
        """Return the matches of a pass, and its near misses with the reasons; the model is not changed."""
        return matches_of(self.model, with_options(what, options))

    def preview(self, what: Passes, /, **options: object) -> ModelDiff:
        """Return the unverified changes that passes would make; the model is not changed."""
        passes: Any = with_options(what, options)
        return diff(self.model, apply(self.model, passes, verify=False).model)

    def diff(self, other: Other | None = None) -> ModelDiff:
        """Return the changes of the last step, or since a step (0 is the original), a branch or a model."""
        if other is None:
            return diff((self._state.parent or self._state).model, self.model)
        return diff(self._model_of(other), self.model)

    def why(self, node: Place) -> Ancestry:
        """Return the rewrites of the session from which a node or value came, or which removed it."""
        recording = self._replayed().recording
        assert recording is not None
        return recording.of(node)

    def why_not(self, what: PassLike | Rule, /, *, at: Place | None = None, top: int = 5) -> WhyNot:
        """Return the reasons why a pass does not apply, at all or at one node."""
        return why_not(self.model, with_options(what, {}), at=at, top=top)

    def run(self, inputs: Any = None, *, values: Sequence[str] = ()) -> dict[str, Array]:
        """Run the current model on inputs or on those of the session; returns outputs and named ``values`` inside."""
        given = self._inputs() if inputs is None else listed(inputs)
        return run_model(self.model, given, seed=self._data.seed, values=values)

    def verify(self, other: Other | None = None) -> Verdict:
        """Compare the results of the current model with the original, or a step, a branch or a model."""
        try:
            if other is None or other == 0:
                return self._data.compare_with_original(self._state)
            before = self._model_of(other)
            settings = Settings(inputs=self._inputs(), seed=self._data.seed)
            return check(Claim("tolerance"), before, self.model, settings)
        except ExecutionError as error:
            raise ModelError(error.what, where=error.where, hint=error.hint) from error

    def report(self, target: str | Path, *, title: str = "") -> Path:
        """Write a page that shows every rewrite of the session so far, or with the suffix .json its data."""
        return self._replayed().report(target, title=title or f"{self.title} · {self.name}")

    def save(self, target: Target, *, external: External = None) -> SaveReport:
        """Write the current model, as ``onnx_passes.save`` does, if ONNX Runtime loads it or not even the original."""
        if not self._state.number:
            return save(self.model, target, external=external)
        written = as_writable(self.model, lambda: self.original)
        saved = save(written.model, target, external=external)
        return replace(saved, notes=(*written.notes, *saved.notes))

    def __repr__(self) -> str:
        at = "as it was opened" if not self._state.number else f"after step {self._state.number}, {self._state.text}"
        branch = "" if self.name == MAIN else f", branch {self.name}"
        return f"<Session {self.title}{branch}: {count_nodes(self.model)} nodes {at}>"

    @property
    def title(self) -> str:
        """Return the name of the file, or of the model."""
        return title_of(self.original)

    def _replayed(self) -> Result:
        """Repeat the session as one recorded run, once for the current state."""
        if self._replay is None or self._replay[0] is not self._state:
            self._replay = self._state, replay(self._state)
        return self._replay[1]

    def _inputs(self) -> Sequence[Any]:
        return self._data.at(self._state)

    def _verification(self, wanted: bool | None) -> bool | Verification:
        chosen = self._verify if wanted is None or (wanted and self._verify) else wanted
        if not isinstance(chosen, Verification):
            return chosen
        chosen = copy.copy(chosen)
        chosen.inputs = self._inputs()
        return chosen

    def _model_of(self, other: Any) -> ir.Model:
        """Return the model of a step number, the name of a branch, a state, or a loadable source."""
        if isinstance(other, int):
            if not 0 <= other < len(self.steps):
                raise UsageError(f"there is no step {other}", hint=f"steps go from 0 to {len(self.steps) - 1}")
            return self.steps[other].model
        if isinstance(other, str) and other in self._branches:
            return self._branches[other].model
        if isinstance(other, str) and not Path(other).exists():
            hint = did_you_mean(other, self._branches) or f"branches are {', '.join(self._branches)}"
            raise UsageError(f"'{other}' is neither a branch nor a file", hint=hint)
        return load(other)


def replay(state: SessionState) -> Result:
    """Repeat the steps to a state with recording; evidence and times of the steps are kept.

    Verification, which is most of the cost of a step, is not repeated.
    """
    result = run_plan(plan_of(state), copy_model(state.path()[0].model), (), Recording())
    run, before = result.record, [each.result for each in state.path() if each.result is not None]
    _take_over([step for each in before for step in each.steps], run.steps)
    run.cpu, run.wall = sum(each.record.cpu for each in before), sum(each.record.wall for each in before)
    run.level = level_of_run(run)
    return result


def _take_over(known: list[StepRecord], steps: list[StepRecord]) -> None:
    """Copy evidence and times to repeated steps; a plan has the same steps each time it runs."""
    if [step.name for step in known] != [step.name for step in steps]:
        return
    for old, new in zip(known, steps, strict=True):
        new.evidence, new.proofs, new.cpu, new.wall = old.evidence, old.proofs, old.cpu, old.wall


_MISSES = 5
"""Maximum number of misses kept per rule, those that matched furthest."""


def matches_of(model: ir.Model, what: PassLike) -> Matches:
    """Try the rules of a pass at every node without changes, on a copy prepared by the required passes."""
    answer = why_not(model, what, top=_all_nodes(model))
    here = {
        value.name: node for container in containers(model) for node in container.all_nodes() for value in node.outputs
    }
    found, missed, more = list[Match](), list[Miss](), 0
    for report in answer.rules:
        found += [_match(model, attempt, here) for attempt in report.attempts if attempt.applies]
        misses = [attempt for attempt in report.attempts if attempt.stops and _is_near(attempt)]
        more += len(misses[_MISSES:])
        missed += [_miss(report, attempt, here) for attempt in misses[:_MISSES]]
    order = {node: number for number, node in enumerate(here.values())}
    found.sort(key=lambda match: order.get(match.root, len(order)))
    return Matches(what if isinstance(what, str) else _name(what), model, tuple(found), tuple(missed), more)


def _all_nodes(model: ir.Model) -> int:
    return sum(1 for container in containers(model) for _ in container.all_nodes()) + 1


def _name(what: object) -> str:
    if isinstance(what, type):
        return getattr(what, "text_name", "") or kebab(what.__name__)
    return getattr(what, "name", None) or str(what)


def _is_near(attempt: Attempt) -> bool:
    """Return whether an attempt matched more than its root."""
    return attempt.complete or len(attempt.matched) > 1


def _match(model: ir.Model, attempt: Attempt, here: dict[str | None, ir.Node]) -> Match:
    """Return the match on the nodes of the model itself, found by name."""
    nodes = tuple(_own(attempt.nodes, here))
    root = nodes[0]
    graph = root.graph if root.graph is not None else model.graph
    return Match(model, graph, root, nodes, tuple(root.outputs), dict(attempt.bindings))


def _miss(report: RuleReport, attempt: Attempt, here: dict[str | None, ir.Node]) -> Miss:
    progress = "" if attempt.complete else f"{len(attempt.matched)} of {attempt.size} nodes matched, but "
    reasons = tuple(str(stop) for stop in attempt.stops)
    return Miss(report.rule, attempt.node, progress, reasons, tuple(_own(attempt.nodes, here)))


def _own(nodes: Sequence[ir.Node], here: dict[str | None, ir.Node]) -> Iterator[ir.Node]:
    for node in nodes:
        yield here.get(node.outputs[0].name if node.outputs else None, node)
