"""Find the first pass, and the first rule application in it, that makes a model bad, by bisection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

import onnx_passes.passes  # noqa: F401  # pyright: ignore[reportUnusedImport] - teaches the registry foreign rules
from onnx_passes.check.blame.diagnosis import Mark, Replay, first_bad
from onnx_passes.check.blame.excuse import Taken
from onnx_passes.core.compose import PassLike
from onnx_passes.core.errors import OnnxPassesError, PassFailedError, UsageError
from onnx_passes.core.instruments import Instrument, Limit, StopAfter
from onnx_passes.core.manager import Manager
from onnx_passes.core.plan import Plan, Step, plan
from onnx_passes.core.records import Application, RunRecord, StepRecord
from onnx_passes.debug.judges import ByFunction, ByMetrics, ByResults, Judge
from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.load import Source, load
from onnx_passes.history.items import Applied, Item, added_items, items_text, matched_items
from onnx_passes.verify.comparison.declarations import RestrictsInputs
from onnx_passes.verify.failure import fact_lines


@dataclass(frozen=True)
class Bisection:
    """The first bad step of a run and the first bad application in it; ``step`` is 0 if nothing is bad.

    Applications are numbered over the whole run, as ``--limit`` counts them; ``place`` is the number within the step.
    ``drift`` is set if no single step or application is bad, but the sum of small differences is. If a judge could not
    decide, ``suspects`` lists the other candidates.
    """

    runs: int
    steps: int
    step: int = 0
    text: str = ""
    application: int = 0
    place: str = ""
    rule: str = ""
    source: str = ""
    matched: str = ""
    added: str = ""
    difference: str = ""
    drift: str = ""
    suspects: str = ""

    @property
    def found(self) -> bool:
        """Return whether anything is bad."""
        return self.step > 0

    def __str__(self) -> str:
        if not self.found:
            return f"nothing is bad: the result of all {self.steps} steps is good ({self.runs} runs)"
        facts = {
            "pass": self.text,
            "application": f"{self.application}, {self.place}" if self.application else "",
            "rule": f"{self.rule}, {self.source}" if self.rule else "",
            "matched": self.matched,
            "replaced by": self.added,
            "difference": self.difference,
            "drift": self.drift,
            "or else": self.suspects,
            "runs": str(self.runs),
        }
        return "\n".join([f"first bad step: {self.step} of {self.steps}", *fact_lines(facts)])

    def to_json(self) -> dict[str, Any]:
        """Return plain data, without empty fields."""
        return {"found": self.found, **{key: value for key, value in vars(self).items() if value not in ("", 0)}}


def bisect(
    model: Source,
    pipeline: PassLike | Iterable[PassLike] | Plan,
    *,
    is_bad: Judge | Callable[[ir.Model], object] | None = None,
    options: Mapping[str, Mapping[str, object]] | None = None,
) -> Bisection:
    """Find the first bad step of a pipeline and the first bad rule application in it.

    ``is_bad`` is a judge, or a function that returns a reason or something true for a bad model; by default results are
    compared with those of the original model. A pass that raises is bad, too. The model is not changed.
    """
    judge = is_bad if isinstance(is_bad, Judge) else ByResults() if is_bad is None else ByFunction(is_bad)
    planned = pipeline if isinstance(pipeline, Plan) else plan(pipeline, defaults=options)
    restricting = next((step for _, step in planned.walk() if isinstance(step.pass_, RestrictsInputs)), None)
    if restricting is not None and isinstance(judge, ByResults | ByMetrics):
        raise UsageError(
            f"{restricting.text} changes the inputs of the model",
            hint="apply it first, and bisect what follows on the result",
        )
    return _Search(load(model), planned, judge).run()


@dataclass
class _Side:
    """The nearest known good or bad model, and its verdict."""

    model: ir.Model
    reason: str = ""


class _Search:
    def __init__(self, model: ir.Model, planned: Plan, judge: Judge) -> None:
        self.original = model
        self.plan = planned
        self.judge = judge
        self.runs = 0
        self.trace = Trace()
        self.good = self.bad = _Side(model)

    def run(self) -> Bisection:
        replay = Replay(self.plan, lambda: copy_model(self.original))
        _require_good(self.judge.start(self.original, replay))
        self.execute(self.plan, self.original, [self.trace])
        leaves = self.trace.leaves
        if self.trace.failure is None:
            mark = self.ask(self.trace.model, leaves)
            if mark.status == "skip":
                raise UsageError("the result cannot be judged", hint=mark.reason or "use another criterion")
            if not mark.bad:
                return Bisection(self.runs, self.trace.steps)
        else:
            self.bad = _Side(self.trace.model, f"the pass failed: {self.trace.failure.error}")
        good, bad = first_bad(0, len(leaves), self.judge_step)
        return self.conclude(good, bad)

    def judge_step(self, count: int) -> Mark:
        """Judge the model after the first ``count`` steps of the run."""
        leaves = self.trace.leaves[:count]
        stop = StopAfter(leaves[-1].number)
        self.execute(self.plan, self.original, [stop])
        if stop.model is None or stop.text != leaves[-1].step.text:
            raise _not_repeatable(leaves[-1].number, leaves[-1].step.text, stop.text or "nothing")
        return self.ask(stop.model, leaves)

    def ask(self, model: ir.Model, leaves: Sequence[SingleStep], *, is_partial: bool = False) -> Mark:
        """Judge a model, and store it as the nearest good or bad one."""
        mark = self.judge.judge(model, _changing(leaves), is_partial=is_partial)
        if mark.bad:
            self.bad = _Side(model, mark.reason)
        elif mark.status == "good":
            self.good = _Side(model)
        return mark

    def conclude(self, good: int, bad: int) -> Bisection:
        leaves = self.trace.leaves
        culprit = leaves[bad - 1]
        facts: dict[str, Any] = {"step": culprit.number, "text": culprit.step.text}
        if bad - good > 1:
            facts["suspects"] = _suspects("step", [leaf.number for leaf in leaves[good : bad - 1]])
        else:
            facts.update(self.within(culprit, leaves[:bad]))
        facts.setdefault("difference", self.bad.reason)
        return Bisection(self.runs, self.trace.steps, **facts)

    def within(self, culprit: SingleStep, leaves: Sequence[SingleStep]) -> dict[str, Any]:
        """Find the first bad application of the culprit, and whether it is bad by itself or by accumulated drift."""
        before, taken = self.good.model, _changing(leaves)
        if culprit.failed:
            failure = self.bad.reason
            if not culprit.applications or not self.ask(self.bad.model, leaves, is_partial=True).bad:
                # The applications before the error are good.
                return {"difference": failure}
        drift = ""
        if not culprit.failed and self.judge.is_harmless(before, self.bad.model, taken):
            drift = "no single pass is bad; at this one the sum of small differences exceeds the limit"
        if not culprit.applications:
            return {"drift": drift}

        def judge_application(count: int) -> Mark:
            return self.ask(self.replay(culprit, before, count), leaves, is_partial=True)

        good, bad = first_bad(0, culprit.applications, judge_application)
        applied = self.trace.applications[culprit.first + bad - 1]
        if not drift and culprit.applications > 1 and self.judge.is_harmless(self.good.model, self.bad.model, taken):
            drift = "no single application is bad; at this one the sum of small differences exceeds the limit"
        numbers = [self.trace.applications[culprit.first + i].number for i in range(good, bad - 1)]
        return {
            "application": applied.number,
            "place": f"{bad} of {culprit.applications} in this step",
            "rule": applied.rule,
            "source": applied.source,
            "matched": items_text(applied.matched),
            "added": items_text(applied.added),
            "drift": drift,
            "suspects": _suspects("application", numbers),
        }

    def replay(self, leaf: SingleStep, before: ir.Model, count: int) -> ir.Model:
        """Run one step, up to a number of its applications."""
        again = Trace()
        alone = Plan((Step(leaf.step.pass_, leaf.step.why),), leaf.step.text)
        self.execute(alone, before, [Limit(count), again])
        if len(again.applications) != count:
            raise _not_repeatable(leaf.number, f"{count} applications", str(len(again.applications)))
        return again.model

    def execute(self, planned: Plan, model: ir.Model, instruments: Sequence[Instrument]) -> None:
        """Run a plan on a copy; instruments also see the model that a failing pass leaves."""
        self.runs += 1
        try:
            Manager(instruments).run(planned, copy_model(model))
        except (OnnxPassesError, ir.passes.InvariantError):
            # The trace of the first run has the failure; later runs fail at the same step only.
            return


def _changing(leaves: Sequence[SingleStep]) -> list[Taken]:
    return [(leaf.record, leaf.step) for leaf in leaves if leaf.modified or leaf.failed]


def _require_good(mark: Mark) -> None:
    if mark.bad:
        raise UsageError(
            f"the original model is already bad: {mark.reason}",
            hint="check the data, the limits or the command",
        )
    if mark.status == "skip":
        raise UsageError("the original model cannot be judged", hint=mark.reason or "use another criterion")


def _not_repeatable(step: int, expected: str, found: str) -> PassFailedError:
    return PassFailedError(
        f"the pipeline is not deterministic: {expected} in the first run, {found} now",
        where=f"step {step}",
        hint="look for passes that depend on random numbers, on time or on the order of sets",
    )


def _suspects(what: str, numbers: Sequence[int]) -> str:
    """Describe the candidates between good and bad that could not be judged."""
    if not numbers:
        return ""
    several = f"{what}s {', '.join(map(str, numbers))}" if len(numbers) > 1 else f"{what} {numbers[0]}"
    return f"{several}, which could not be judged"


@dataclass(frozen=True)
class SingleStep:
    """Step that is not a sequence; ``first`` is the number of applications before it in the run."""

    record: StepRecord
    step: Step
    first: int
    applications: int
    failed: bool = False

    @property
    def number(self) -> int:
        """Return the number of the step."""
        return self.record.number

    @property
    def modified(self) -> bool:
        """Return whether the step changed the model."""
        return self.record.modified


@dataclass(frozen=True)
class StepFailure:
    """The step that ended a run, and its error."""

    number: int
    error: BaseException


class Trace(Instrument):
    """Record of all steps and applications, and the model at the end, also of a failed run."""

    model: ir.Model

    def __init__(self) -> None:
        self.leaves: list[SingleStep] = []
        self.applications: list[Applied] = []
        self.failure: StepFailure | None = None
        self._first = 0
        self._matched: tuple[Item, ...] = ()

    @property
    def steps(self) -> int:
        """Return the number of the last step."""
        return max((leaf.number for leaf in self.leaves), default=0)

    def before_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Store the model, which passes change in place."""
        self.model = model

    def before_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Store the number of applications before a step."""
        self._first = len(self.applications)

    def after_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Record a step that is not a sequence."""
        self.model = model
        if not record.has_children:
            self._note(record, step, failed=False)

    def pass_failed(self, record: StepRecord, step: Step, model: ir.Model, error: BaseException) -> None:
        """Record the innermost step that failed: the sequences around it fail with it."""
        if self.failure is None:
            self.model = model
            self.failure = StepFailure(record.number, error)
            self._note(record, step, failed=True)

    def _note(self, record: StepRecord, step: Step, *, failed: bool) -> None:
        first = len(self.applications) if record.has_children else self._first
        applications = len(self.applications) - first
        self.leaves.append(SingleStep(record, step, first, applications, failed))

    def before_rewrite(self, application: Application) -> None:
        """Describe a rewrite before it is applied."""
        self._matched = matched_items(application)

    def after_rewrite(self, application: Application) -> None:
        """Describe a rewrite that was applied."""
        self.applications.append(
            Applied(
                application.number,
                application.step.number,
                application.rule,
                application.source,
                self._matched,
                added_items(application),
            )
        )
