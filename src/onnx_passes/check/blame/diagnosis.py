"""Diagnose a failure: replay the run, name step, rewrite and value that changed results, write it to a folder."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import onnx_ir as ir

from onnx_passes.check.baseline import REST, Baseline, ClaimViolation
from onnx_passes.check.blame.reproducer import write_reproducer
from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.core.instruments import Instrument, Limit, StopAfter
from onnx_passes.core.manager import Manager
from onnx_passes.core.plan import Plan, Step
from onnx_passes.core.records import Application, RunRecord, StepRecord
from onnx_passes.graph.copy import copy_model
from onnx_passes.verify.comparison.compare import compare
from onnx_passes.verify.comparison.evidence import Limits, promise_of
from onnx_passes.verify.failure import Failure, PostconditionError, failed_step
from onnx_passes.verify.run.execute import Engine, Executor, Sample

Taken = tuple[StepRecord, Step]

_TOGETHER = "none: each is right on its own nodes, but together they exceed the tolerance"


@dataclass
class Diagnosis:
    """All that is known when a check fails: the steps so far, of which the first ``checked`` are known to be right.

    The run is repeated once; steps and rewrites are then looked at one by one, from copies made on the way.
    """

    baseline: Baseline
    executor: Executor
    limits: Limits
    replay: Replay
    steps: Sequence[Taken]
    checked: int
    model: ir.Model
    origin: str
    seed: int
    reproducer: Path | None
    _models: dict[int, ir.Model] = field(default_factory=dict[int, ir.Model])

    def report(self, violation: ClaimViolation) -> PostconditionError:
        """Find the culprit and put together the error."""
        suspects = self.steps[self.checked :]
        self._repeat(suspects)
        position = len(suspects) - 1
        if violation.application is None and position > 0:
            position = self._first_bad_step(suspects, violation.sample)
        record, step = suspects[position]
        promise = promise_of([step.pass_ for _, step in suspects[: position + 1]], self.limits)
        number, claim, sample = record.number, str(promise.claim), self._describe(violation.sample)
        failure = Failure(number, step.text, claim, violation.difference, sample)
        failure.no_excuse, failure.advice = violation.no_excuse, violation.advice
        before = self._model_before(record.number)
        if record.applications and before is not None:
            self._name(failure, suspects[: position + 1], before, violation)
        if before is not None:
            failure.diverges = self._divergence(before, step, violation.sample)
            if self.reproducer is not None:
                failure.reproducer = self._write(self.reproducer, before, step, failure, violation.sample)
        return failed_step(record, step, failure, violation.what)

    def _repeat(self, suspects: Sequence[Taken], always: Collection[int] = ()) -> None:
        """Repeat the run, and keep the model after every step that may be to blame, and before the first."""
        since = self.steps[self.checked - 1][0].number if self.checked else 0
        kept = Snapshots([record.number for record, _ in suspects], {since, *always})
        # Where the run ended is as far as it gets again.
        with contextlib.suppress(OnnxPassesError):
            self.replay.after_step(suspects[-1][0].number, kept)
        self._models = kept.models

    def _model_before(self, step: int) -> ir.Model | None:
        """Return the model before a step: it is as the last one before it that changed it left it."""
        return self._models.get(max((number for number in self._models if number < step), default=-1))

    def _first_bad_step(self, suspects: Sequence[Taken], sample: int) -> int:
        """Return the place of the first step after which results are wrong."""
        places = {record.number: place for place, (record, _) in enumerate(suspects)}

        def judge(place: int) -> Mark:
            return self._judge(self._models[suspects[place][0].number], suspects[: place + 1], sample)

        def first() -> int:
            known = [places[number] for number in sorted(self._models) if number in places]
            return known[first_bad(-1, len(known) - 1, lambda at: judge(known[at]))[1]]

        changed = max((places[number] for number in self._models if number in places), default=None)
        if changed is not None and judge(changed).bad and self._is_guilty(suspects[: (bad := first()) + 1], sample):
            return bad
        # A step that says nothing of its change is to blame.
        self._repeat(suspects, list(places))
        return first()

    def _is_guilty(self, suspects: Sequence[Taken], sample: int) -> bool:
        """Return whether the last step breaks results that are right after the step before it."""
        record, step = suspects[-1]
        before = self._model_before(record.number)
        try:
            return before is not None and self._judge(self._after(step, before), suspects, sample).bad
        except OnnxPassesError:
            return True

    def _judge(self, model: ir.Model, steps: Sequence[Taken], sample: int) -> Mark:
        promise = promise_of([step.pass_ for _, step in steps], self.limits)
        try:
            ready = self.executor.prepare(model, engine=self.baseline.engine, feeds=self.baseline.feeds)
            results = [ready.run(self.baseline.samples[sample])]
            return GOOD if self.baseline.violation(model, results, promise, first=sample) is None else BAD
        except OnnxPassesError:
            return BAD

    def _name(self, failure: Failure, suspects: Sequence[Taken], before: ir.Model, violation: ClaimViolation) -> None:
        """Name the rewrite to blame, unless each passed its local check."""
        record, step = suspects[-1]
        earlier = sum(taken.applications for taken, _ in self.steps if taken.number < record.number)
        tolerant = not promise_of([step.pass_ for _, step in suspects], self.limits).is_equality
        if violation.application is not None:
            number = violation.application - earlier
        elif tolerant and record.evidence is not None and record.evidence.windows == record.applications:
            failure.application = _TOGETHER
            return
        else:

            def judge(number: int) -> Mark:
                return self._judge(self._after(step, before, Limit(number)), suspects, violation.sample)

            try:
                number = first_bad(0, record.applications, judge)[1]
            except OnnxPassesError:
                return
        last = Culprit()
        try:
            self._after(step, before, Limit(number), last)
        except OnnxPassesError:
            return
        if last.number == number:
            place = f"number {last.in_step} of {record.applications} in this pass, by {last.rule}"
            failure.application, failure.number = place, earlier + number
            failure.source, failure.matched, failure.replacement = last.source, last.matched, last.added

    def _divergence(self, before: ir.Model, step: Step, sample: int) -> str:
        """Apply a step once more, and name the first changed value, following replaced values."""
        followed = Successors()
        try:
            after = self._after(step, before, followed)
        except OnnxPassesError:
            return ""
        names = [str(value.name) for node in before.graph for value in node.outputs]
        values, engine = self.baseline.samples[sample], self.baseline.engine
        return first_divergence(before, after, values, self.executor, engine, followed.find(names, after))

    @staticmethod
    def _after(step: Step, before: ir.Model, *watchers: Limit | Culprit | Successors) -> ir.Model:
        return Manager(watchers).run(Plan((step,), step.text), copy_model(before)).model

    def _describe(self, sample: int) -> str:
        if sample == REST:
            return f"none of those {self.origin}, which show nothing"
        shapes = ", ".join(f"{name}{list(array.shape)}" for name, array in self.baseline.samples[sample].items())
        return f"number {sample} ({shapes or 'no inputs'}), {self.origin}"

    def _write(self, folder: Path, before: ir.Model, step: Step, failure: Failure, sample: int) -> str:
        special = self.baseline.specials if sample == REST else None
        samples = [*self.baseline.samples, *(special.samples if special is not None else ())]
        report, tolerance = failure.to_json(), self.limits.pair
        try:
            return str(
                write_reproducer(folder, before, step.text, samples, report, seed=self.seed, tolerance=tolerance)
            )
        except OnnxPassesError as error:
            return f"none: {error}"


_MOST_NODES = 6
"""So many nodes of a rewrite are described."""


class Culprit(Instrument):
    """The last application of a repeated run, described while its nodes are still at hand."""

    def __init__(self) -> None:
        self.rule = self.source = self.matched = self.added = ""
        self.number = self.in_step = 0

    def before_rewrite(self, application: Application) -> str | None:
        """Describe the nodes that the application replaces."""
        self._matched = _describe(application.matched)
        return None

    def after_rewrite(self, application: Application) -> None:
        """Describe the application."""
        self.number, self.rule, self.source = application.number, application.rule, application.source
        self.in_step = application.step.applications
        self.matched, self.added = self._matched, _describe(application.added)


class Snapshots(Instrument):
    """Copies of the model after steps of a repeated run (0: before the first), of most where they say they changed it.

    Those that ``always`` names are kept whatever their steps say.
    """

    def __init__(self, steps: Collection[int], always: Collection[int]) -> None:
        self._steps, self._always = frozenset(steps), frozenset(always)
        self.models: dict[int, ir.Model] = {}

    def before_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Store the original model."""
        if 0 in self._always:
            self.models[0] = copy_model(model)

    def after_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Keep the model after a step."""
        if record.number in self._always or (record.number in self._steps and record.modified):
            self.models[record.number] = copy_model(model)


def first_divergence(
    before: ir.Model,
    after: ir.Model,
    sample: Sample,
    executor: Executor,
    engine: Engine,
    successors: Mapping[str, ir.Value] | None = None,
) -> str:
    """Name the first value, in the order of execution, that both models have and that differs.

    ``successors`` says which value of the second model stands for which one of the first; without it, the names do.
    """
    known = {str(value.name): value for node in before.graph for value in node.outputs if value.name}
    if successors is None:
        successors = {str(value.name): value for node in after.graph for value in node.outputs if value.name in known}
    shared = {value: name for name, value in reversed(list(successors.items())) if name in known}
    try:
        old = executor.prepare(before, also=[known[name] for name in shared.values()], engine=engine).run(sample)
        new = executor.prepare(after, also=list(shared), engine=engine).run(sample)
    except OnnxPassesError:
        return ""
    for node in after.graph:
        for value in node.outputs:
            name = shared.get(value)
            if name is None or name not in old or value.name not in new:
                continue
            result = compare({name: np.asarray(old[name])}, {name: np.asarray(new[value.name])})
            if result.first is not None:
                return f"{result.first.message()}, computed by {_describe([node])}"
    return ""


def _describe(nodes: Sequence[ir.Node]) -> str:
    shown = [_node(node) for node in nodes[-_MOST_NODES:]]
    more = len(nodes) - len(shown)
    return ", ".join([f"{more} more", *shown] if more else shown) or "nothing"


def _node(node: ir.Node) -> str:
    inputs = ", ".join((value.name or "?") if value is not None else "" for value in node.inputs)
    outputs = ", ".join(value.name or "?" for value in node.outputs)
    return f"{outputs} = {node.op_type}({inputs})"


class Successors(Instrument):
    """Follows values from the model at the beginning, of a run or where it is begun with, on.

    What a rewrite replaces is followed to what it puts in; all else stays what it is as long as it keeps its name.
    """

    def __init__(self) -> None:
        self.start: ir.Model | None = None
        self._values: dict[str, ir.Value] = {}
        self._links: dict[ir.Value, ir.Value] = {}

    def before_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Begin with the original model."""
        self.begin(model)

    def after_rewrite(self, application: Application) -> None:
        """Link replaced values to their replacements."""
        if self.start is not None:
            self._links.update((old, new) for old, new in application.replaced if old is not new)

    def begin(self, model: ir.Model) -> None:
        """Begin with a model."""
        self.start = copy_model(model)
        self._values = {str(value.name): value for node in model.graph for value in node.outputs}

    def find(self, names: list[str], model: ir.Model) -> dict[str, ir.Value]:
        """Return the successors in the final model of the named values of the original one, if there are any."""
        computed = {value: str(value.name) for node in model.graph for value in node.outputs}
        by_name = {name: value for value, name in computed.items()}
        found: dict[str, ir.Value] = {}
        for name in names:
            value, seen = self._values.get(name), set[ir.Value]()
            while value in self._links and value not in seen:
                seen.add(value)
                value = self._links[value]
            if value in computed and (seen or computed[value] == name):
                found[name] = value
            elif name in by_name and not seen:
                # A pass that returns another model has copied it.
                found[name] = by_name[name]
        return found


class Replay:
    """Repeats a run from the model that it started with, which ``source`` returns anew each time."""

    def __init__(self, plan: Plan, source: Callable[[], ir.Model]) -> None:
        self.plan = plan
        self.source = source

    def after_step(self, step: int, *watchers: Instrument) -> ir.Model:
        """Return the model as it was after a step; 0 is before the first."""
        return self._run(StopAfter(step), *watchers) if step else self.source()

    def _run(self, *instruments: Instrument) -> ir.Model:
        return Manager(instruments).run(self.plan, self.source()).model


@dataclass(frozen=True)
class Mark:
    """A model marked as good or bad, as in ``git bisect``, and why; ``skip`` is one that cannot be judged."""

    status: Literal["good", "bad", "skip"]
    reason: str = ""

    @property
    def bad(self) -> bool:
        """Return whether the model is bad."""
        return self.status == "bad"


GOOD, BAD = Mark("good"), Mark("bad")


def first_bad(good: int, bad: int, judge: Callable[[int], Mark]) -> tuple[int, int]:
    """Narrow down from a good and a bad number to neighbours, or as far as the judge can tell."""
    open_ = list(range(good + 1, bad))
    while open_:
        middle = open_[len(open_) // 2]
        mark = judge(middle)
        if mark.status == "skip":
            open_.remove(middle)
        elif mark.bad:
            bad, open_ = middle, [number for number in open_ if number < middle]
        else:
            good, open_ = middle, [number for number in open_ if number > middle]
    return good, bad
