"""The verification instrument: after every pass the model is run again and its results are compared."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import onnx_ir as ir

from onnx_passes.core.base import Pass
from onnx_passes.core.claims import Claim
from onnx_passes.core.errors import ModelError, OnnxPassesError, UsageError
from onnx_passes.core.fingerprint import Fingerprinter
from onnx_passes.core.instruments import Instrument
from onnx_passes.core.plan import Step
from onnx_passes.core.records import Evidence, RunRecord, Status, StepRecord
from onnx_passes.graph.copy import copy_model
from onnx_passes.verify.claims import StructureClaim
from onnx_passes.verify.compare import Comparison, compare
from onnx_passes.verify.culprit import first_bad_application, first_divergence
from onnx_passes.verify.execute import Engine, ExecutionError, Executor, Sample
from onnx_passes.verify.failure import Failure, PostconditionError, VerificationError
from onnx_passes.verify.generate import generate
from onnx_passes.verify.reference import read_inputs, read_outputs
from onnx_passes.verify.reproducer import write_reproducer

Mode = Literal["each", "final"]
EXPLICIT = "verify"
"""The pass that asks for a check where it stands, whether or not anything changed."""


@dataclass(frozen=True)
class Limits:
    """How far results may be from those of the original model where a pass promises no equality."""

    atol: float = 1e-5
    rtol: float = 1e-4


class Verification(Instrument):
    """Run the model before the pipeline and after every pass that changed it, and compare.

    A pass that promises equality must keep the results of the step before bit by bit, any other must stay within
    tolerance of the original model. Steps that leave the structure as it was are checked together with the next one
    that does not, or at the end. Where the model cannot be run, every step says so: that is a status of its own.
    """

    def __init__(
        self,
        *,
        inputs: Sequence[Any] = (),
        expect: Sequence[Any] = (),
        seed: int = 0,
        limits: Limits | None = None,
        mode: Mode = "each",
        executor: Executor | None = None,
        reproducer: Path | None = None,
    ) -> None:
        self.inputs = inputs
        self.expect = expect
        self.seed = seed
        self.limits = limits or Limits()
        self.mode = mode
        self.executor = executor or Executor()
        self.reproducer = reproducer
        self._samples: list[Sample] = []
        self._original: list[Sample] = []
        self._current: list[Sample] = []
        self._engine: Engine = "onnxruntime"
        self._obstacle = ""
        self._good: ir.Model | None = None
        self._identity = Fingerprinter()
        self._state = b""
        self._pending: list[tuple[StepRecord, Step]] = []

    def before_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Get data and the results that everything is measured against."""
        self._obstacle, self._pending = "", []
        self._good = copy_model(model)
        try:
            self._state = self._identity.structural(model)
            self._run_original(model)
        except (ExecutionError, ModelError) as error:
            if self.inputs:
                raise
            self._obstacle = str(error)
            return
        self._original = read_outputs(model, self.expect, samples=len(self._samples)) if self.expect else self._current
        if self.expect:
            self._require_expected()

    def _run_original(self, model: ir.Model) -> None:
        """Run the model as it came; of generated samples, those that it cannot take are left out."""
        samples = read_inputs(model, self.inputs) if self.inputs else self._generate(model)
        ready = self.executor.prepare(model)
        self._engine = ready.engine
        self._samples, self._current = [], []
        refusal: ExecutionError | None = None
        for sample in samples:
            try:
                self._current.append(ready.run(sample))
                self._samples.append(sample)
            except ExecutionError as error:
                refusal = error
                if self.inputs:
                    break
        if refusal is not None and (self.inputs or not self._samples):
            raise refusal

    def _generate(self, model: ir.Model) -> list[Sample]:
        """Generate inputs; where nobody can, that is an obstacle and no error."""
        try:
            return generate(model, seed=self.seed)
        except UsageError as error:
            raise ExecutionError(str(error)) from error

    def after_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Hold a pass to its promise; a sequence is its members."""
        if record.has_children:
            return
        self._require_structure(record, step, model)
        if not record.modified and step.name != EXPLICIT:
            record.evidence = Evidence("unchanged")
        elif self._obstacle:
            record.evidence = Evidence("unverified", reason=self._obstacle)
        elif step.name != EXPLICIT and (self.mode == "final" or not self._is_new_structure(model)):
            self._pending.append((record, step))
        else:
            self._verify(record, step, model)

    def after_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Check the result of the run as far as the last steps were not checked one by one."""
        if self._pending:
            self._verify(*self._pending[-1], model)

    def _is_new_structure(self, model: ir.Model) -> bool:
        """Tell whether results can differ: names, types, metadata and the order of nodes do not decide them."""
        before = self._state
        try:
            self._state = self._identity.structural(model)
        except ModelError:
            # A graph with a cycle has no digest; running it shows what is wrong.
            return True
        return before != self._state

    def _verify(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        started = time.perf_counter()
        claim = _claim(step.pass_) if self.mode == "each" else Claim("tolerance")
        limits = self._limits(claim)
        try:
            ready = self.executor.prepare(model, engine=self._engine)
            results = [ready.run(sample) for sample in self._samples]
        except ExecutionError as error:
            broken = self._broken(record, step, claim, model, f"the model no longer runs: {error}", 0)
            raise broken from broken.__cause__
        reference = self._current if claim.kind == "equality" else self._original
        comparisons = [compare(old, new) for old, new in zip(reference, results, strict=True)]
        for number, comparison in enumerate(comparisons):
            if not (comparison.equal or (limits is not None and comparison.within(limits.atol, limits.rtol))):
                failed = self._failed(record, step, claim, model, comparison, number)
                raise failed from failed.__cause__
        record.evidence = Evidence(
            level="sampled" if all(comparison.equal for comparison in comparisons) else "tolerance",
            claim=str(claim),
            samples=len(self._samples),
            max_abs=max((c.max_abs or 0.0 for c in comparisons), default=0.0),
            max_rel=max((c.max_rel or 0.0 for c in comparisons), default=0.0),
            max_ulp=max((c.max_ulp or 0 for c in comparisons), default=0),
            engine=self._engine,
            seconds=time.perf_counter() - started,
        )
        for earlier, _ in self._pending:
            earlier.evidence = earlier.evidence or Evidence("implied", reason=f"checked after step {record.number}")
        self._pending = []
        self._current = results
        self._good = copy_model(model)

    def _require_structure(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Hold a pass to the structure that it promises."""
        for claim in step.pass_.claims:
            if isinstance(claim, StructureClaim):
                violations = [v for prop in claim.properties for v in prop.violations(model, self._good)]
                if violations:
                    difference = "; ".join(map(str, violations))
                    failure = Failure(record.number, step.text, str(claim), difference, "")
                    failed = self._conclude(record, step, failure, difference)
                    raise failed from failed.__cause__

    def _limits(self, claim: Claim) -> Limits | None:
        if claim.kind == "equality":
            return None
        given = {key: float(str(value)) for key, value in claim.parameters.items() if key in ("atol", "rtol")}
        return Limits(given.get("atol", self.limits.atol), given.get("rtol", self.limits.rtol))

    def _require_expected(self) -> None:
        if len(self._original) != len(self._samples):
            raise UsageError(
                f"{len(self._original)} samples of outputs are expected for {len(self._samples)} samples of inputs",
                hint="give as many of one as of the other",
            )
        for number, (expected, found) in enumerate(zip(self._original, self._current, strict=True)):
            comparison = compare(expected, {name: found[name] for name in expected if name in found})
            if comparison.first is not None and not comparison.within(self.limits.atol, self.limits.rtol):
                raise VerificationError(
                    f"{comparison.first.name} not as expected before any pass ran: {comparison.first.message()}",
                    where=f"sample {number}",
                    hint="check that inputs and expected outputs belong to this model",
                )

    def _failed(
        self, record: StepRecord, step: Step, claim: Claim, model: ir.Model, comparison: Comparison, number: int
    ) -> PostconditionError:
        assert comparison.first is not None
        failure = self._describe(record, step, claim, comparison.first.message(), number)
        self._find_culprit(failure, record, step, model, number, claim)
        return self._conclude(record, step, failure, f"{comparison.first.name} not as expected")

    def _broken(
        self, record: StepRecord, step: Step, claim: Claim, model: ir.Model, what: str, number: int
    ) -> PostconditionError:
        failure = self._describe(record, step, claim, what, number)
        self._find_culprit(failure, record, step, model, number, claim)
        return self._conclude(record, step, failure, what)

    def _describe(self, record: StepRecord, step: Step, claim: Claim, difference: str, number: int) -> Failure:
        shapes = ", ".join(f"{name}{list(array.shape)}" for name, array in self._samples[number].items())
        origin = "given" if self.inputs else f"generated from seed {self.seed}"
        return Failure(
            step=record.number,
            text=step.text,
            claim=str(claim),
            difference=difference,
            sample=f"number {number} ({shapes or 'no inputs'}), {origin}",
        )

    def _find_culprit(
        self, failure: Failure, record: StepRecord, step: Step, model: ir.Model, number: int, claim: Claim
    ) -> None:
        good, limits = self._good, self._limits(claim)
        if good is None:
            return
        expected, sample = self._current[number], self._samples[number]

        def is_good(candidate: ir.Model) -> bool:
            try:
                found = self.executor.prepare(candidate, engine=self._engine).run(sample)
            except ExecutionError:
                return False
            result = compare(expected, found)
            return result.equal or (limits is not None and result.within(limits.atol, limits.rtol))

        if record.applications and self.mode == "each":
            culprit = first_bad_application(good, step, record.applications, is_good)
            if culprit is not None:
                failure.application = (
                    f"number {culprit.number} of {record.applications} in this pass, by {culprit.rule}"
                )
                failure.source, failure.matched = culprit.source, culprit.matched
                failure.replacement = culprit.added
        failure.diverges = first_divergence(good, model, sample, self.executor, self._engine)

    def _conclude(self, record: StepRecord, step: Step, failure: Failure, what: str) -> PostconditionError:
        record.status, record.reason = Status.FAILED, failure.difference
        record.evidence = Evidence("failed", failure.claim, reason=failure.difference)
        if self.reproducer is not None and self._good is not None:
            try:
                failure.reproducer = str(
                    write_reproducer(self.reproducer, self._good, step.text, self._samples, failure.to_json())
                )
            except OnnxPassesError as error:
                failure.reproducer = f"none: {error}"
        error = PostconditionError(f"Post-condition for pass '{type(step.pass_).__name__}' failed", failure)
        error.__cause__ = VerificationError(what)
        return error


def _claim(pass_: Pass) -> Claim:
    """Choose what is checked: what the pass promises, else what its kind implies."""
    if pass_.name == EXPLICIT:
        return Claim("tolerance")
    for claim in pass_.claims:
        if claim.kind in ("equality", "tolerance"):
            return claim
    return Claim("equality") if pass_.kind in ("analysis", "annotation") else Claim("tolerance")
