"""The verification instrument: after every pass it is known that the model still computes the same."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NoReturn

import onnx_ir as ir

from onnx_passes.core.errors import ModelError, UsageError
from onnx_passes.core.instruments import Instrument
from onnx_passes.core.plan import Plan, Step
from onnx_passes.core.records import Application, Evidence, RunRecord, StepRecord
from onnx_passes.graph.copy import copy_model
from onnx_passes.verify.baseline import REST, Baseline, Start, establish
from onnx_passes.verify.blame.diagnosis import Charge, Diagnosis
from onnx_passes.verify.blame.excuse import Excuse, Excuses
from onnx_passes.verify.blame.replay import Replay
from onnx_passes.verify.claims import StructureClaim
from onnx_passes.verify.comparison.compare import compare
from onnx_passes.verify.comparison.declarations import ChangesInterface, ShowsInside, wrong_annotation
from onnx_passes.verify.comparison.evidence import evidence_of
from onnx_passes.verify.comparison.levels import below, level_of
from onnx_passes.verify.comparison.promise import DEFAULT, EXPLICIT, Limits, Promise, PromiseFor, promise_of
from onnx_passes.verify.failure import Failure, VerificationError, failed_step
from onnx_passes.verify.local.piecewise import Piecewise, beyond_memory
from onnx_passes.verify.local.specials import SpecialWindows
from onnx_passes.verify.local.unreached import NEVER_RAN, Unreached
from onnx_passes.verify.local.windows import Windows
from onnx_passes.verify.narrowing import Narrowing
from onnx_passes.verify.run.activations import LIMIT, Activations
from onnx_passes.verify.run.execute import ExecutionError, Executor, Sample
from onnx_passes.verify.samples.generate import Sampling

__all__ = ["EXPLICIT", "Limits", "Mode", "Verification"]

Mode = Literal["every", "each", "final"]
Taken = tuple[StepRecord, Step]


class Verification(Instrument):
    """Hold every pass to its promise: equality with the results before it, or tolerance against the original model.

    Rewrites are checked at once and locally: what a rule takes out and what it puts in run side by side on values
    from the model. The whole model runs after every pass of the pipeline that was not checked so, at the end of every
    group, and at the end of the run (``mode`` ``"each"``); after every single pass, where annotations are compared with
    what is computed, too (``"every"``); or only at the end (``"final"``). If it fails, the run is repeated to find the
    first step and rewrite that are wrong. Where the model cannot be run, every step says so: that is a status of its
    own.

    ``samples`` is how many inputs are generated, ``special`` whether NaN, infinities, the largest and the smallest
    numbers are tried, too; by default that depends on the size of the model. ``source`` returns the model that the run
    starts with, anew each time; without it a copy is kept. ``memory`` limits
    the values that are kept for local checks, ``require`` is the level of evidence that every step must reach.
    """

    def __init__(
        self,
        *,
        inputs: Sequence[Any] = (),
        expect: Sequence[Any] = (),
        seed: int = 0,
        samples: int | None = None,
        special: bool | None = None,
        limits: Limits | None = None,
        mode: Mode = "each",
        executor: Executor | None = None,
        reproducer: Path | None = None,
        source: Callable[[], ir.Model] | None = None,
        memory: int = LIMIT,
        require: str | None = None,
    ) -> None:
        self.inputs = inputs
        self.expect = expect
        self.seed = seed
        self.sampling = Sampling(seed, samples, special)
        self.limits = limits or DEFAULT
        self.mode: Mode = mode
        self.executor = executor or Executor()
        self.reproducer = reproducer
        self.source = source
        self.memory = memory
        self.require = require
        self._start: Start | None = None
        self._baseline: Baseline | None = None
        self._obstacle = ""
        self._steps: list[Taken] = []
        self._pending: list[Taken] = []
        self._checked = 0

    def before_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Get data and the results that everything is measured against."""
        self._obstacle, self._steps, self._pending, self._checked = "", [], [], 0
        self._local: dict[int, int] = {}
        """How many rewrites of a step were checked where they stand."""
        self._run, self._start, self._baseline = run, None, None
        self._windows: Windows | None = None
        self._special: SpecialWindows | None = None
        self._activations: Activations | None = None
        self._before: ir.Model | None = None
        self._piecewise: Piecewise | None = None
        self._too_large = "" if self.inputs or self.expect else beyond_memory(model, self.executor)
        if self._too_large:
            self._piecewise = Piecewise(
                model, self.executor, self.memory, self.seed, lambda owner: promise_of([owner], self.limits)
            )
            return
        if self.source is not None:
            self._source = self.source
        else:
            kept = copy_model(model)
            self._source = lambda: copy_model(kept)
        self._has_bodies = Unreached.concerns(model)
        narrowing = Narrowing(model, run.plan)
        try:
            if self.inputs or self.expect or self.mode == "every":
                self._baseline = establish(
                    model, self.inputs, self.expect, self.sampling, self.executor, self.limits, narrowing
                )
                self._look_inside(self._baseline)
            else:
                self._start = Start(model, (), self.sampling, self.executor, narrowing)
        except (ExecutionError, ModelError) as error:
            if self.inputs:
                raise
            self._obstacle = str(error)

    def before_pass(self, record: StepRecord, step: Step, model: ir.Model) -> str | None:
        """Get ready to look at rewrites, and keep the model if the pass promises something about it."""
        if any(isinstance(claim, StructureClaim) for claim in step.pass_.claims):
            self._before = copy_model(model)
        if isinstance(step.pass_, ChangesInterface):
            self._look_before_change(step.pass_, model)
        self._model, self._windows, self._settled = model, None, 0
        if self._piecewise is not None:
            self._piecewise.before_pass(model)
        return None

    def _look_before_change(self, change: ChangesInterface, model: ir.Model) -> None:
        """Settle what waits, and see what the model holds inside that its interface will show."""
        if self._pending:
            self._verify(model)
        baseline = self._established() if isinstance(change, ShowsInside) else None
        if baseline is not None:
            try:
                baseline.look_inside(change, model, self.executor)
            except (ExecutionError, ModelError) as error:
                self._give_up(f"values inside the model cannot be seen: {error}")

    def before_rewrite(self, application: Application) -> str | None:
        """Take in a rewrite for its local check, if it replaces values that are not known to be the same."""
        if self._piecewise is not None:
            self._piecewise.before_rewrite(application)
            return None
        self._settled += application.settled
        if application.settled or not application.replaced:
            return None
        if self._windows is None:
            baseline = None if self.mode == "final" else self._established()
            if baseline is None or baseline.engine != "onnxruntime":
                return None
            if application.many:
                self._forget()
            self._windows = Windows(self._model, application.step.nodes_before, self._known(baseline))
            if baseline.specials is not None:
                self._special = self._special or SpecialWindows(baseline.specials.samples, self.executor, self.memory)
                self._special.begin(self._model, application.step.nodes_before)
        self._windows.add(application)
        if self._special is not None:
            self._special.add(application)
        return None

    def _forget(self) -> None:
        self._activations = None
        if self._special is not None:
            self._special.forget()

    def _established(self) -> Baseline | None:
        """Run the model as it came, when a step first changes it: what only was annotated is known to be the same."""
        start, self._start = self._start, None
        if start is not None:
            try:
                self._baseline = start.establish()
                self._look_inside(self._baseline)
            except ExecutionError as error:
                self._obstacle = str(error)
                self._settle(Evidence("unverified", reason=self._obstacle))
        return self._baseline

    def _look_inside(self, baseline: Baseline) -> None:
        """Run what no sample reaches alone, in the model as it came: that of the run may have changed already."""
        if self._has_bodies:
            baseline.unreached = Unreached(self._source(), baseline.samples, self.executor, baseline.engine)

    def _known(self, baseline: Baseline) -> Activations:
        """Run the model once for the values inside, when the first rewrite needs them."""
        if self._activations is None:
            self._activations = Activations(self.executor, self.memory)
            try:
                self._activations.fill(self._model, baseline.samples)
            except (ExecutionError, ModelError):
                self._activations.samples = baseline.samples[:2]
        return self._activations

    def after_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Hold a pass to its promise; a sequence at the top of the pipeline is a point to run the whole model."""
        if self._piecewise is not None:
            self._check_piecewise(self._piecewise, record, step, model)
            return
        if record.has_children:
            if record.depth == 0 and self.mode != "final" and self._pending:
                self._verify(model)
            return
        self._steps.append((record, step))
        self._require_structure(record, step, model)
        explicit = step.name == EXPLICIT
        if not record.modified and not explicit:
            record.evidence = Evidence("unchanged")
        elif self._start is not None and step.pass_.kind == "annotation":
            self._pending.append((record, step))
        elif (baseline := self._established()) is None:
            record.evidence = Evidence("unverified", reason=self._obstacle)
        else:
            self._pending.append((record, step))
            if baseline.unreached is not None:
                baseline.unreached.note(record.number, model)
            if isinstance(step.pass_, ChangesInterface):
                self._activations = self._special = None
                try:
                    baseline.follow(step.pass_, model)
                except UsageError as error:
                    self._give_up(f"the samples of this run do not fit any more: {error}")
                    return
            complete = self._check_locally(record, step, model)
            alone = record.depth == 0 and step.pass_.kind == "transformation" and not complete
            if self.mode == "every" and step.pass_.kind == "annotation":
                self._require_annotations(baseline, model)
            if self._pending and (explicit or self.mode == "every" or (self.mode == "each" and alone)):
                self._verify(model)
        self._windows = None

    def _check_piecewise(self, piecewise: Piecewise, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Check the rewrites of a pass, and say once that the model itself does not run."""
        if record.has_children:
            return
        self._require_structure(record, step, model)
        piecewise.after_pass(record, step, model)
        if record.modified and self._too_large:
            record.notes.append(self._too_large)
            self._too_large = ""

    def _give_up(self, obstacle: str) -> None:
        """Say of this step and all that follow that they are not verified."""
        self._obstacle, self._baseline, self._windows = obstacle, None, None
        self._settle(Evidence("unverified", reason=obstacle))

    def after_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Run the whole model as it came out, unless it is known to compute the same."""
        if self._start is not None or self._baseline is not None:
            if not self._pending and self._steps and not self._ran(model):
                # Somebody changed the model and did not say so.
                self._pending = [self._steps[-1]]
            if self._pending:
                self._verify(model)
        run.level = level_of(run)
        weak = below(run, self.require) if self.require else []
        if weak:
            names = ", ".join(f"{step.name} (step {step.number}: {_level_text(step)})" for step in weak[:5])
            raise VerificationError(f"evidence is weaker than '{self.require}': {names}")

    def _check_locally(self, record: StepRecord, step: Step, model: ir.Model) -> bool:
        """Check the rewrites of a pass one by one; tells whether all were, and raises what the model shows is wrong."""
        windows = self._windows
        if windows is None or not windows.windows or self._baseline is None:
            return False
        started = time.perf_counter()
        promise = promise_of([step.pass_], self.limits)
        try:
            checks = windows.run(self.executor)
        except (ExecutionError, ModelError):
            return False
        wrong = windows.first_wrong(checks, self._promise_for(step), self.executor)
        if wrong is not None:
            self._judge(*wrong, record, model)
            return False
        if self._special is not None and (found := self._special.wrong(self._promise_for(step))) is not None:
            number, difference = found
            charge = Charge(f"with special values in the inputs: {difference}", difference, REST, application=number)
            self._fail(model, charge)
        self._local[record.number] = len(checks)
        if windows.missed or len(checks) + self._settled != record.applications:
            return False
        samples = max(len(values) for check in checks for values in check.comparisons)
        comparisons = [comparison for check in checks for values in check.comparisons for comparison in values]
        record.evidence = evidence_of(promise, comparisons, samples, "onnxruntime", started, windows=len(checks))
        return True

    def _promise_for(self, step: Step) -> PromiseFor:
        return lambda owner: promise_of([owner or step.pass_], self.limits)

    def _judge(self, application: int, promise: Promise, difference: str, record: StepRecord, model: ir.Model) -> None:
        """Ask the whole model about a rewrite that is wrong where it stands; equality must hold there, too."""
        checked = self._checked
        self._verify(model, suspect=application)
        self._checked = min(checked, len(self._steps) - 1)
        if promise.is_equality:
            name = difference.split(":")[0].split("[")[0]
            difference = f"{difference}; no output shows it on these samples"
            self._fail(model, Charge(difference, f"{name} not as expected", application=application))
        record.notes.append(f"rewrite {application} differs locally, the outputs do not: {difference}")

    def _verify(self, model: ir.Model, suspect: int | None = None) -> None:
        """Run the whole model and compare; settles all pending steps."""
        started = time.perf_counter()
        if self._is_annotated_only() and self._ran(model):
            self._settle(Evidence("unchanged", reason="the same is executed, byte by byte"))
            return
        baseline = self._established()
        if baseline is None:
            return
        record, _ = self._pending[-1]
        given = promise_of([step.pass_ for _, step in self._pending], self.limits)
        promise = given.in_type(baseline.unit)
        results, obstacle = self._results(baseline, model)
        if obstacle:
            self._fail(model, Charge(obstacle, obstacle, application=suspect))
        excuse = self._excuse(baseline, model, results, promise, suspect)
        reference = baseline.current if promise.is_equality else baseline.original
        comparisons = [compare(old, new) for old, new in zip(reference, results, strict=True)]
        evidence = evidence_of(promise, comparisons, len(baseline.samples), baseline.engine, started)
        if excuse is not None:
            record.notes.append(excuse.reason)
        if baseline.ties is not None and not promise.is_equality:
            evidence = replace(evidence, level="tolerance", reason=str(baseline.ties))
        baseline.unit = max(baseline.unit, given.unit)
        baseline.accept(results, as_original=promise.claim.kind == "metric" or given.unit > 0)
        self._settle(evidence, after=record.number)

    def _excuse(
        self, baseline: Baseline, model: ir.Model, results: list[Sample], promise: Promise, suspect: int | None
    ) -> Excuse | None:
        """Return why results may be other than promised, if they are; without a reason they are a failure."""
        complaint = baseline.complaint(model, results, promise)
        if complaint is None:
            return None
        since = self._steps[self._checked - 1][0].number if self._checked else 0
        excuses = Excuses(baseline, self._replay(), self.executor, self.limits, self._pending, since)
        excuse = excuses.find(model, results, promise) if suspect is None else "a rewrite is wrong where it stands"
        if isinstance(excuse, str):
            difference, what, sample = complaint.difference, complaint.what, complaint.sample
            advice = baseline.advice(results, promise) if promise.claim.kind == "tolerance" else ""
            self._fail(model, Charge(difference, what, sample, suspect, no_excuse=excuse, advice=advice))
        if excuse.ties is not None:
            baseline.explain(results, excuse.ties, excuse.spent)
        return replace(excuse, reason=f"{complaint.difference}; {excuse.reason}")

    def _ran(self, model: ir.Model) -> bool:
        """Tell whether this is, byte by byte, what ran last or, before anything changed it, would have."""
        if self._start is not None:
            return self._start.is_unchanged(self.executor, model)
        return self._baseline is not None and self._baseline.ran(self.executor, model)

    def _is_annotated_only(self) -> bool:
        return all(step.pass_.kind == "annotation" for _, step in self._pending)

    def _settle(self, evidence: Evidence, after: int | None = None) -> None:
        """Give evidence to the steps that waited for it; what was checked locally stays as it is."""
        last = self._pending[-1][0] if self._pending else None
        for record, _ in self._pending:
            if record is last or after is None:
                record.evidence = replace(evidence, windows=self._local.get(record.number, 0))
            elif record.evidence is None:
                windows = self._local.get(record.number, 0)
                reason = f"checked after step {after}"
                record.evidence = Evidence(evidence.level, evidence.claim, windows=windows, reason=reason)
            unreached = None if self._baseline is None else self._baseline.unreached
            if unreached is not None and (text := unreached.unchecked(record.number)):
                record.evidence = Evidence("unverified", reason=f"{NEVER_RAN}: {text}")
        self._pending, self._checked = [], len(self._steps)

    def _results(self, baseline: Baseline, model: ir.Model) -> tuple[list[Sample], str]:
        try:
            return baseline.run(self.executor, model), ""
        except (ExecutionError, ModelError) as error:
            return [], f"the model no longer runs: {error}"

    def _replay(self) -> Replay:
        return Replay(self._run.plan or Plan(tuple(step for _, step in self._steps), ""), self._source)

    def _fail(self, model: ir.Model, charge: Charge) -> NoReturn:
        """Find out who is to blame among the steps since the last check, also those that claim no change."""
        assert self._baseline is not None
        failed = Diagnosis(
            baseline=self._baseline,
            executor=self.executor,
            limits=self.limits,
            replay=self._replay(),
            steps=self._steps,
            checked=self._checked,
            model=model,
            origin="given" if self.inputs else f"generated from seed {self.seed}",
            seed=self.seed,
            reproducer=self.reproducer,
        ).report(charge)
        raise failed from failed.__cause__

    def _require_annotations(self, baseline: Baseline, model: ir.Model) -> None:
        """Compare what values inside the model are said to be with what they are."""
        known = Activations(self.executor, self.memory)
        try:
            known.fill(model, baseline.samples)
        except (ExecutionError, ModelError):
            return
        if wrong := wrong_annotation(model.graph, known.get):
            self._fail(model, Charge(wrong, wrong))

    def _require_structure(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Hold a pass to the structure that it promises, unless it was stopped before it got there."""
        if record.stopped:
            return
        for claim in step.pass_.claims:
            if isinstance(claim, StructureClaim):
                violations = [v for prop in claim.properties for v in prop.violations(model, self._before)]
                if violations:
                    difference = "; ".join(map(str, violations))
                    failed = failed_step(record, step, Failure(record.number, step.text, str(claim), difference))
                    raise failed from failed.__cause__


def _level_text(step: StepRecord) -> str:
    return step.evidence.level if step.evidence is not None else "unverified"
