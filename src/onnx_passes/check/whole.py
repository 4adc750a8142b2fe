"""Verification that runs the whole model: rewrites at once where they are, and the rest when it is due."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NoReturn

import onnx_ir as ir

from onnx_passes.check.baseline import REST, Baseline, ClaimViolation
from onnx_passes.check.blame.diagnosis import Diagnosis, Replay, Taken
from onnx_passes.check.blame.excuse import Excuses
from onnx_passes.check.original import BeyondMemoryError, Original
from onnx_passes.check.settings import Settings
from onnx_passes.check.verdict import judge
from onnx_passes.core.coverage import Coverage
from onnx_passes.core.errors import ModelError, UsageError
from onnx_passes.core.evidence import UNVERIFIED, Evidence
from onnx_passes.core.plan import Plan, Step
from onnx_passes.core.records import Application, RunRecord, StepRecord
from onnx_passes.core.walk import holds_graphs
from onnx_passes.verify.comparison.declarations import ChangesInterface, ShowsInside, wrong_annotation
from onnx_passes.verify.comparison.evidence import EXPLICIT, Promise, PromiseFor, promise_of, says_nothing
from onnx_passes.verify.failure import VerificationError
from onnx_passes.verify.local.specials import wrong_special
from onnx_passes.verify.local.windows import LocalChecks, WindowCheck, evidence_of_checks
from onnx_passes.verify.proving.accounts import Accounts
from onnx_passes.verify.run.activations import Activations
from onnx_passes.verify.run.execute import ExecutionError, Executor
from onnx_passes.verify.samples.coverage import coverage_of
from onnx_passes.verify.ties.decisions import decides


class Rewrites:
    """Collects the rewrites of a pass while it runs, and runs old and new nodes side by side when it has ended.

    They run on the ``usual`` and on ``special`` samples of the ``baseline``, if the model runs.
    """

    def __init__(self, executor: Executor, memory: int, baseline: Callable[[], Baseline | None]) -> None:
        self._executor, self._memory, self._baseline = executor, memory, baseline
        self.usual, self.special = LocalChecks(self._look), LocalChecks(self._look_at_specials)
        self.coverage: Coverage | None = None
        """What the samples brought about inside the model when it was first run for the values there."""

    def begin(self, model: ir.Model) -> None:
        """Prepare for the rewrites of a pass."""
        self._model = model
        self.usual.begin(model)
        self.special.begin(model)

    def end(self) -> None:
        """Discard the collected values."""
        self.usual.end()
        self.special.end()

    def forget(self) -> None:
        """Discard all values inside the model, since its interface changed."""
        self.usual.known = self.special.known = None

    def add(self, application: Application, *, keeps_bits: bool) -> None:
        """Record a rewrite, if it replaces values that are not known to be the same.

        What is proved to keep all bits needs no check where it stands: the model shows whether the proof is right.
        """
        for checks in (self.usual, self.special):
            if keeps_bits and not application.settled:
                checks.follow(application)
            else:
                checks.add(application)

    def run(self) -> list[WindowCheck]:
        """Run and compare all collected rewrites; an empty list if that is impossible."""
        try:
            checks = self.usual.run()
        except (ExecutionError, ModelError):
            return []
        if not all(check.equal for check in checks) and any(map(decides, self._model.graph)):
            # Levels behind what has changed in the last place may be others by now.
            self.usual.known = None
        return checks

    def evidence(
        self, checks: Sequence[WindowCheck], applications: int, promise: Promise, started: float
    ) -> Evidence | None:
        """Sum up checks that hold, unless some of the applications are not among them."""
        return None if self.usual.missed(applications) else evidence_of_checks(checks, promise, started)

    def _look(self, model: ir.Model) -> Activations | None:
        """Run the model once for the values inside, when the first rewrite needs them."""
        baseline = self._baseline()
        if baseline is None or baseline.engine != "onnxruntime":
            return None
        known = Activations(self._executor, self._memory)
        try:
            known.fill(model, baseline.samples)
            self.coverage = self.coverage or coverage_of(model, known.get)
        except (ExecutionError, ModelError):
            known.samples = baseline.samples[:2]
        return known

    def _look_at_specials(self, model: ir.Model) -> Activations | None:
        baseline = self._baseline()
        if baseline is None or baseline.specials is None:
            return None
        known = Activations(self._executor, self._memory)
        try:
            known.fill(model, baseline.specials.samples)
        except (ExecutionError, ModelError):
            known.samples = ()
        return known


class WholeModel:
    """Compares the results of the model with its previous ones, on samples of its inputs.

    The model runs first when a step changes it, and again only where the rewrites of a pass could not be checked where
    they stand, or where the mode asks for it: until then steps are pending.
    """

    def __init__(self, settings: Settings, run: RunRecord, model: ir.Model) -> None:
        self._settings, self._run = settings, run
        self._original = Original(model, settings, run.plan)
        self._steps: list[Taken] = []
        self._pending: list[Taken] = []
        self._checked = 0
        self._local: dict[int, int] = {}
        """How many rewrites of a step were checked where they stand."""
        self._rewrites = Rewrites(
            settings.executor, settings.memory, lambda: None if settings.mode == "final" else self._established()
        )
        self._remember(model)

    def before_pass(self, step: Step, model: ir.Model) -> None:
        """Prepare to check rewrites and the interface."""
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
        """Record a rewrite for its local check."""
        self._rewrites.add(application, keeps_bits=keeps_bits)
        if self._original.has_bodies and any(map(holds_graphs, application.matched)):
            baseline = self._established()
            if baseline is not None and baseline.unreached is not None:
                baseline.unreached.add(application)

    def _established(self) -> Baseline | None:
        """Run the original model when a step first changes it: what only was annotated is known to be the same."""
        waited, baseline = self._original.waits, self._original.established()
        if waited and baseline is None:
            self._settle(Evidence("unverified", reason=self._original.obstacle))
        return baseline

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
        elif self._original.waits and step.pass_.kind == "annotation":
            self._pending.append((record, step))
        elif (baseline := self._established()) is None:
            record.evidence = Evidence("unverified", reason=self._original.obstacle)
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
        self._original.follow(record.number, model)
        if isinstance(step.pass_, ChangesInterface):
            self._rewrites.forget()
            try:
                baseline.follow(step.pass_, model, record.number)
            except UsageError as error:
                self._give_up(f"the samples of this run do not fit any more: {error}")
                return False
        return True

    def _give_up(self, obstacle: str) -> None:
        """Mark this step and all later ones as not verified."""
        self._original.drop(obstacle)
        self._rewrites.end()
        self._settle(Evidence("unverified", reason=obstacle))

    def after_pipeline(self, model: ir.Model) -> None:
        """Run the whole transformed model, unless it is known to compute the same."""
        if self._original.waits or self._original.baseline is not None:
            is_known = self._pending or not self._steps or not self._as_it_ran.objection(model)
            if not is_known and not self._original.is_executed(model):
                # Somebody changed the model and did not say so.
                self._pending = [self._steps[-1]]
            if self._pending:
                self._verify(model)
        self._run.coverage = self._coverage()
        if self._settings.expect:
            self._require_expected()

    def _coverage(self) -> Coverage | None:
        """Return what the samples brought about, in graphs inside the model as far as these were looked at."""
        baseline = self._original.baseline
        unreached = None if baseline is None else baseline.unreached
        branches, taken, alone = (0, 0, 0) if unreached is None else unreached.counts
        seen = self._rewrites.coverage
        if seen is None and not branches:
            return None
        return (seen or Coverage()).with_branches(branches, taken, alone)

    def _require_expected(self) -> None:
        """Hold the result of the run to the outputs that the user expects, whatever its passes promise."""
        if self._original.baseline is None:
            raise VerificationError(
                f"the outputs were not compared with those that are expected: {self._original.obstacle}",
                hint="leave out the expected outputs to run without them",
            )
        hint = "give a wider tolerance, or measure a metric on a dataset"
        self._original.baseline.require_expected(self._settings.limits, "after all passes ran", hint)

    def _check_locally(self, record: StepRecord, step: Step, model: ir.Model) -> bool:
        """Check the rewrites of a pass one by one; raises what the model shows is wrong.

        Tells whether all were checked, or are proved to keep all bits: then the model need not run at once.
        """
        started, promise_for = time.perf_counter(), self._promise_for(step)
        checks = self._rewrites.run()
        if not checks:
            return record.all_evidence.keeps_bits
        wrong = self._rewrites.usual.first_wrong(checks, promise_for)
        if wrong is not None:
            self._judge(*wrong, record, model)
            return False
        if (found := wrong_special(self._rewrites.special, promise_for)) is not None:
            number, difference = found
            violation = ClaimViolation(
                f"with special values in the inputs: {difference}", difference, REST, application=number
            )
            self._fail(model, violation)
        self._local[record.number] = len(checks)
        evidence = self._rewrites.evidence(checks, record.applications, promise_for(None), started)
        record.evidence = evidence or record.evidence
        return evidence is not None

    def _promise_for(self, step: Step) -> PromiseFor:
        return lambda owner: promise_of([owner or step.pass_], self._settings.limits)

    def _judge(self, application: int, promise: Promise, difference: str, record: StepRecord, model: ir.Model) -> None:
        """Ask the whole model about a rewrite that is wrong where it stands; equality must hold there, too."""
        checked, baseline = self._checked, self._original.baseline
        self._verify(model, suspect=application)
        if self._original.baseline is None and not promise.is_equality:
            record.notes.append(f"rewrite {application} differs locally: {difference}")
            return
        self._original.put_back(baseline)
        self._checked = min(checked, len(self._steps) - 1)
        if promise.is_equality:
            name = difference.split(":")[0].split("[")[0]
            difference = f"{difference}; no output shows it on these samples"
            self._fail(model, ClaimViolation(difference, f"{name} not as expected", application=application))
        record.notes.append(f"rewrite {application} differs locally, the outputs do not: {difference}")

    def _verify(self, model: ir.Model, suspect: int | None = None) -> None:
        """Run the whole model and compare; settles all pending steps."""
        if self._is_annotated_only() and self._original.is_executed(model):
            self._settle(Evidence("unchanged", reason="the same is executed, byte by byte"))
            return
        baseline = self._established()
        if baseline is None:
            return
        record, _ = self._pending[-1]
        given = promise_of([step.pass_ for _, step in self._pending], self._settings.limits)
        promise = given.in_type(baseline.unit)
        since = self._steps[self._checked - 1][0].number if self._checked else 0
        settings, pending = self._settings, self._pending
        excuses = Excuses(baseline, self._replay(), settings.executor, settings.limits, pending, since)
        suspected = "a rewrite is wrong on its own nodes"
        try:
            accepts = excuses if suspect is None else suspected
            verdict = judge(baseline, model, promise, settings.executor, accepts, self._original.source)
        except BeyondMemoryError as error:
            self._give_up(f"the original fits in memory, what became of it does not: {error}")
            return
        if verdict.level == UNVERIFIED:
            self._give_up(verdict.evidence.reason)
            return
        if verdict.violation is not None:
            self._fail(model, replace(verdict.violation, application=suspect))
        record.notes += baseline.notes
        baseline.notes = []
        results, accepted = list(verdict.outputs), verdict.accepted
        if accepted is not None:
            record.notes.append(accepted.reason)
            if accepted.ties is not None:
                baseline.explain(results, accepted.ties, accepted.spent)
        if given.unit and (doubt := says_nothing(results)):
            record.notes.append(doubt)
        baseline.unit = max(baseline.unit, given.unit)
        baseline.accept(results, as_original=promise.claim.kind == "metric" or given.unit > 0)
        self._settle(verdict.evidence, after=record.number)
        self._remember(model)

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
        baseline = self._original.baseline
        unreached = None if baseline is None else baseline.unreached
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

    def _replay(self) -> Replay:
        return Replay(self._run.plan or Plan(tuple(step for _, step in self._steps), ""), self._original.source)

    def _fail(self, model: ir.Model, violation: ClaimViolation) -> NoReturn:
        """Find out who is to blame among the steps since the last check, also those that claim no change."""
        assert self._original.baseline is not None
        failed = Diagnosis(
            baseline=self._original.baseline,
            executor=self._settings.executor,
            limits=self._settings.limits,
            replay=self._replay(),
            steps=self._steps,
            checked=self._checked,
            model=model,
            origin="given" if self._settings.inputs else f"generated from seed {self._settings.seed}",
            seed=self._settings.seed,
            reproducer=self._settings.reproducer,
        ).report(violation)
        raise failed from failed.__cause__

    def _require_annotations(self, baseline: Baseline, model: ir.Model) -> None:
        """Compare what values inside the model are said to be with what they are."""
        known = Activations(self._settings.executor, self._settings.memory)
        try:
            known.fill(model, baseline.samples)
        except (ExecutionError, ModelError):
            return
        if wrong := wrong_annotation(model.graph, known.get):
            self._fail(model, ClaimViolation(wrong, wrong))
