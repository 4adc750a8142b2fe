"""Verification that runs the whole model: rewrites at once where they stand, and what is left when it is due."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import NoReturn

import onnx_ir as ir

from onnx_passes.core.coverage import Coverage
from onnx_passes.core.errors import ModelError, OnnxPassesError, UsageError
from onnx_passes.core.evidence import Evidence, Finding
from onnx_passes.core.plan import Plan, Step
from onnx_passes.core.records import Application, RunRecord, StepRecord
from onnx_passes.core.walk import holds_graphs
from onnx_passes.graph.copy import copy_model
from onnx_passes.verify.baseline import REST, Baseline, Start, establish
from onnx_passes.verify.blame.diagnosis import Charge, Diagnosis, Taken
from onnx_passes.verify.blame.excuse import Excuse, Excuses
from onnx_passes.verify.blame.replay import Replay
from onnx_passes.verify.comparison.compare import compare
from onnx_passes.verify.comparison.declarations import ChangesInterface, ShowsInside, wrong_annotation
from onnx_passes.verify.comparison.evidence import evidence_of, says_nothing
from onnx_passes.verify.comparison.promise import EXPLICIT, Promise, PromiseFor, promise_of
from onnx_passes.verify.failure import VerificationError
from onnx_passes.verify.local.unreached import Unreached
from onnx_passes.verify.narrowing import Narrowing
from onnx_passes.verify.proving.accounts import Accounts
from onnx_passes.verify.rewrites import Rewrites
from onnx_passes.verify.run.activations import Activations
from onnx_passes.verify.run.execute import ExecutionError, MemoryLimitError, Sample
from onnx_passes.verify.settings import Settings


class BeyondMemoryError(OnnxPassesError):
    """The whole model takes more memory than it may."""


class WholeModel:
    """Compares the results of the model with those that it had, on samples of its inputs.

    The model runs first when a step changes it, and again only where the rewrites of a pass could not be checked where
    they stand, or where the mode asks for it: until then steps are pending.
    """

    def __init__(self, settings: Settings, run: RunRecord, model: ir.Model) -> None:
        self._settings, self._run = settings, run
        self._start: Start | None = None
        self._baseline: Baseline | None = None
        self._obstacle = ""
        self._steps: list[Taken] = []
        self._pending: list[Taken] = []
        self._checked = 0
        self._local: dict[int, int] = {}
        """How many rewrites of a step were checked where they stand."""
        self._rewrites = Rewrites(
            settings.executor, settings.memory, lambda: None if settings.mode == "final" else self._established()
        )
        if settings.source is not None:
            self._source = settings.source
        else:
            kept = copy_model(model)
            self._source = lambda: copy_model(kept)
        self._has_bodies = Unreached.concerns(model)
        self._remember(model)
        self._begin(model)

    def _begin(self, model: ir.Model) -> None:
        """Get data and, where it is given, the results that everything is measured against."""
        settings, narrowing = self._settings, Narrowing(model, self._run.plan)
        try:
            if settings.inputs or settings.expect or settings.mode == "every":
                self._baseline = establish(
                    model,
                    settings.inputs,
                    settings.expect,
                    settings.sampling,
                    settings.executor,
                    settings.limits,
                    narrowing,
                )
                self._look_inside(self._baseline)
            else:
                self._start = Start(model, (), settings.sampling, settings.executor, narrowing)
                if self._start.may_not_fit:
                    self._establish(self._start)
        except MemoryLimitError as error:
            if settings.inputs or settings.expect:
                raise
            raise BeyondMemoryError(error.what) from error
        except (ExecutionError, ModelError) as error:
            if settings.inputs:
                raise
            self._obstacle = str(error)

    def before_pass(self, step: Step, model: ir.Model) -> None:
        """Get ready to look at rewrites, and at what the interface will be."""
        if isinstance(step.pass_, ChangesInterface):
            self._look_before_change(step.pass_, model)
        self._rewrites.begin(model)

    def _look_before_change(self, change: ChangesInterface, model: ir.Model) -> None:
        """Settle what waits, and see what the model holds inside that its interface will show."""
        if self._pending:
            self._verify(model)
        baseline = self._established() if isinstance(change, ShowsInside) else None
        if baseline is not None:
            try:
                baseline.look_inside(change, model, self._settings.executor)
            except (ExecutionError, ModelError) as error:
                self._give_up(f"values inside the model cannot be seen: {error}")

    def before_rewrite(self, application: Application, *, keeps_bits: bool) -> None:
        """Take in a rewrite for its local check."""
        self._rewrites.add(application, keeps_bits=keeps_bits)
        if self._has_bodies and any(map(holds_graphs, application.matched)):
            baseline = self._established()
            if baseline is not None and baseline.unreached is not None:
                baseline.unreached.add(application)

    def _established(self) -> Baseline | None:
        """Run the model as it came, when a step first changes it: what only was annotated is known to be the same."""
        if self._start is not None:
            try:
                self._establish(self._start)
            except ExecutionError as error:
                self._obstacle = str(error)
                self._settle(Evidence("unverified", reason=self._obstacle))
        return self._baseline

    def _establish(self, start: Start) -> None:
        self._start = None
        self._baseline = start.establish()
        self._look_inside(self._baseline)

    def _look_inside(self, baseline: Baseline) -> None:
        """Run what no sample reaches alone, in the model as it came: that of the run may have changed already."""
        if self._has_bodies:
            executor = self._settings.executor
            baseline.unreached = Unreached(self._source, baseline.given, executor, baseline.engine)
            baseline.unreached.follow(baseline.samples)

    def after_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Hold a pass to its promise; a sequence at the top of the pipeline is a point to run the whole model."""
        mode = self._settings.mode
        if record.has_children:
            if record.depth == 0 and mode != "final" and self._pending:
                self._verify(model)
            return
        self._steps.append((record, step))
        explicit = step.name == EXPLICIT
        if not record.modified and not explicit:
            record.evidence = Evidence("unchanged")
        elif self._start is not None and step.pass_.kind == "annotation":
            self._pending.append((record, step))
        elif (baseline := self._established()) is None:
            record.evidence = Evidence("unverified", reason=self._obstacle)
        else:
            self._pending.append((record, step))
            if not self._follow(baseline, record, step, model):
                return
            complete = self._check_locally(record, step, model)
            alone = record.depth == 0 and step.pass_.kind == "transformation" and not complete
            if mode == "every" and step.pass_.kind == "annotation":
                self._require_annotations(baseline, model)
            if self._pending and (explicit or mode == "every" or (mode == "each" and alone)):
                self._verify(model)
        self._rewrites.end()

    def _follow(self, baseline: Baseline, record: StepRecord, step: Step, model: ir.Model) -> bool:
        """Go on with the model, and perhaps the interface, that a pass made; tells whether samples still fit."""
        if not self._has_bodies and Unreached.concerns(model):
            self._has_bodies = True
            self._look_inside(baseline)
        if baseline.unreached is not None:
            baseline.unreached.note(record.number, model)
        if isinstance(step.pass_, ChangesInterface):
            self._rewrites.forget()
            try:
                baseline.follow(step.pass_, model, record.number)
            except UsageError as error:
                self._give_up(f"the samples of this run do not fit any more: {error}")
                return False
        return True

    def _give_up(self, obstacle: str) -> None:
        """Say of this step and all that follow that they are not verified."""
        self._obstacle, self._baseline = obstacle, None
        self._rewrites.end()
        self._settle(Evidence("unverified", reason=obstacle))

    def after_pipeline(self, model: ir.Model) -> None:
        """Run the whole model as it came out, unless it is known to compute the same."""
        if self._start is not None or self._baseline is not None:
            if not self._pending and self._steps and self._as_it_ran.objection(model) and not self._ran(model):
                # Somebody changed the model and did not say so.
                self._pending = [self._steps[-1]]
            if self._pending:
                self._verify(model)
        self._run.coverage = self._coverage()
        if self._settings.expect:
            self._require_expected()

    def _coverage(self) -> Coverage | None:
        """Return what the samples brought about, in graphs inside the model as far as these were looked at."""
        unreached = None if self._baseline is None else self._baseline.unreached
        branches, taken, alone = (0, 0, 0) if unreached is None else unreached.counts
        seen = self._rewrites.coverage
        if seen is None and not branches:
            return None
        return (seen or Coverage()).with_branches(branches, taken, alone)

    def _require_expected(self) -> None:
        """Hold the result of the run to the outputs that the user expects, whatever its passes promise."""
        if self._baseline is None:
            raise VerificationError(
                f"the outputs were not compared with those that are expected: {self._obstacle}",
                hint="leave out the expected outputs to run without them",
            )
        hint = "give a wider tolerance, or measure a metric on a dataset"
        self._baseline.require_expected(self._settings.limits, "after all passes ran", hint)

    def _check_locally(self, record: StepRecord, step: Step, model: ir.Model) -> bool:
        """Check the rewrites of a pass one by one; raises what the model shows is wrong.

        Tells whether all were checked, or are proved to keep all bits: then the model need not run at once.
        """
        started, promise_for = time.perf_counter(), self._promise_for(step)
        checks = self._rewrites.run()
        if not checks:
            return record.all_evidence.keeps_bits
        wrong = self._rewrites.first_wrong(checks, promise_for)
        if wrong is not None:
            self._judge(*wrong, record, model)
            return False
        if (found := self._rewrites.wrong_special(promise_for)) is not None:
            number, difference = found
            charge = Charge(f"with special values in the inputs: {difference}", difference, REST, application=number)
            self._fail(model, charge)
        self._local[record.number] = len(checks)
        evidence = self._rewrites.evidence(checks, record.applications, promise_for(None), started)
        record.evidence = evidence or record.evidence
        return evidence is not None

    def _promise_for(self, step: Step) -> PromiseFor:
        return lambda owner: promise_of([owner or step.pass_], self._settings.limits)

    def _judge(self, application: int, promise: Promise, difference: str, record: StepRecord, model: ir.Model) -> None:
        """Ask the whole model about a rewrite that is wrong where it stands; equality must hold there, too."""
        checked, baseline = self._checked, self._baseline
        self._verify(model, suspect=application)
        if self._baseline is None and not promise.is_equality:
            record.notes.append(f"rewrite {application} differs locally: {difference}")
            return
        self._baseline = baseline
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
        given = promise_of([step.pass_ for _, step in self._pending], self._settings.limits)
        promise = given.in_type(baseline.unit)
        try:
            results, obstacle = self._results(baseline, model)
        except BeyondMemoryError as error:
            self._give_up(f"the original fits in memory, what became of it does not: {error}")
            return
        if obstacle:
            self._fail(model, Charge(obstacle, obstacle, application=suspect))
        record.notes += baseline.notes
        baseline.notes = []
        excuse = self._excuse(baseline, model, results, promise, suspect)
        reference = baseline.current if promise.is_equality else baseline.original
        comparisons = [compare(old, new) for old, new in zip(reference, results, strict=True)]
        if baseline.unreached is not None:
            comparisons += baseline.unreached.inexact
        evidence = evidence_of(promise, comparisons, len(baseline.samples), baseline.engine, started)
        if excuse is not None:
            record.notes.append(excuse.reason)
        if given.unit and (doubt := says_nothing(results)):
            record.notes.append(doubt)
        if baseline.ties is not None and not promise.is_equality:
            evidence = replace(evidence, level=str(Finding("tolerance", "sampled")), reason=str(baseline.ties))
        baseline.unit = max(baseline.unit, given.unit)
        baseline.accept(results, as_original=promise.claim.kind == "metric" or given.unit > 0)
        self._settle(evidence, after=record.number)
        self._remember(model)

    def _excuse(
        self, baseline: Baseline, model: ir.Model, results: list[Sample], promise: Promise, suspect: int | None
    ) -> Excuse | None:
        """Return why results may be other than promised, if they are; without a reason they are a failure."""
        complaint = baseline.complaint(model, results, promise)
        if complaint is None:
            return None
        since = self._steps[self._checked - 1][0].number if self._checked else 0
        excuses = Excuses(
            baseline, self._replay(), self._settings.executor, self._settings.limits, self._pending, since
        )
        excuse = excuses.find(model, results, promise) if suspect is None else "a rewrite is wrong where it stands"
        is_rounding = False
        if isinstance(excuse, Excuse) and baseline.expected is not None:
            # Whoever says what to expect gets that, or hears why not.
            excuse, is_rounding = excuses.refused(excuse), excuse.ties is None
        if isinstance(excuse, str):
            difference, what, sample = complaint.difference, complaint.what, complaint.sample
            # A tolerance for what rounding does not explain would let a wrong rewrite pass.
            advice = baseline.advice(results, promise) if is_rounding else ""
            self._fail(model, Charge(difference, what, sample, suspect, no_excuse=excuse, advice=advice))
        if excuse.ties is not None:
            baseline.explain(results, excuse.ties, excuse.spent)
            # Ties excuse what samples show, and nothing else.
            if rest := baseline.complaint_of_rest(model, promise):
                self._fail(model, Charge(rest, "the model is not as expected", REST, suspect))
        return replace(excuse, reason=f"{complaint.difference}; {excuse.reason}")

    def _ran(self, model: ir.Model) -> bool:
        """Tell whether this is, byte by byte, what ran last or, before anything changed it, would have."""
        if self._start is not None:
            return self._start.is_unchanged(self._settings.executor, model)
        return self._baseline is not None and self._baseline.ran(self._settings.executor, model)

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
            self._look_at_bodies(record)
        self._pending, self._checked = [], len(self._steps)

    def _look_at_bodies(self, record: StepRecord) -> None:
        """Say how the graphs ran that a step changed inside the model; one that is not checked has to be proved."""
        unreached = None if self._baseline is None else self._baseline.unreached
        if unreached is None or record.evidence is None or not (bodies := unreached.evidence(record.number)):
            return
        record.evidence = replace(record.evidence, bodies=bodies)
        unchecked = [body for body in bodies if body.how == "unchecked"]
        if unchecked and not record.all_evidence.is_proved:
            told = f"{unchecked[0].name} is not checked: {unchecked[0].reason}"
            record.evidence = Evidence("unverified", reason=told, bodies=bodies)

    def _remember(self, model: ir.Model) -> None:
        """Take note of the model as it runs, since to find out what it would run as later takes longer."""
        self._as_it_ran = Accounts(model)

    def _results(self, baseline: Baseline, model: ir.Model) -> tuple[list[Sample], str]:
        try:
            return baseline.run(self._settings.executor, model), ""
        except MemoryLimitError as error:
            if baseline.is_large:
                raise BeyondMemoryError(str(error)) from error
            return [], f"the model no longer runs: {error}"
        except (ExecutionError, ModelError) as error:
            return [], f"the model no longer runs: {error}"

    def _replay(self) -> Replay:
        return Replay(self._run.plan or Plan(tuple(step for _, step in self._steps), ""), self._source)

    def _fail(self, model: ir.Model, charge: Charge) -> NoReturn:
        """Find out who is to blame among the steps since the last check, also those that claim no change."""
        assert self._baseline is not None
        failed = Diagnosis(
            baseline=self._baseline,
            executor=self._settings.executor,
            limits=self._settings.limits,
            replay=self._replay(),
            steps=self._steps,
            checked=self._checked,
            model=model,
            origin="given" if self._settings.inputs else f"generated from seed {self._settings.seed}",
            seed=self._settings.seed,
            reproducer=self._settings.reproducer,
        ).report(charge)
        raise failed from failed.__cause__

    def _require_annotations(self, baseline: Baseline, model: ir.Model) -> None:
        """Compare what values inside the model are said to be with what they are."""
        known = Activations(self._settings.executor, self._settings.memory)
        try:
            known.fill(model, baseline.samples)
        except (ExecutionError, ModelError):
            return
        if wrong := wrong_annotation(model.graph, known.get):
            self._fail(model, Charge(wrong, wrong))
