"""The verification instrument, which holds every pass to its claim, and the strategies that it may choose."""

from __future__ import annotations

from typing import Protocol

import onnx_ir as ir

from onnx_passes.check.claims import StructureClaim
from onnx_passes.check.original import BeyondMemoryError
from onnx_passes.check.proof_search import Here, Method, ProofSearch
from onnx_passes.check.settings import Mode, Settings
from onnx_passes.check.whole import WholeModel
from onnx_passes.core.evidence import UNVERIFIED, Finding, reaches
from onnx_passes.core.instruments import Instrument
from onnx_passes.core.plan import Step
from onnx_passes.core.records import Application, RunRecord, StepRecord
from onnx_passes.graph.copy import copy_model
from onnx_passes.proofs.certified import Certified
from onnx_passes.verify.comparison.evidence import EXPLICIT, Limits, level_of_run, obstacles, parse_level, promise_of
from onnx_passes.verify.failure import Failure, UnverifiedError, VerificationError, failed_step
from onnx_passes.verify.local.piecewise import BY_FRAGMENTS, Piecewise, beyond_memory
from onnx_passes.verify.proving.facts import declared_inputs


class Strategy(Protocol):
    """Gives evidence to the steps of one run, and raises where a pass breaks its promise."""

    def before_pass(self, step: Step, model: ir.Model) -> None:
        """Prepare to check the rewrites of a pass."""
        ...

    def before_rewrite(self, application: Application, *, keeps_bits: bool) -> None:
        """Record a rewrite before it changes the graph; ``keeps_bits`` if it is proved to keep all bits."""
        ...

    def after_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Check the step of a pass, at once or together with later ones."""
        ...

    def after_pipeline(self, model: ir.Model) -> None:
        """Check the steps that are not checked yet."""
        ...


__all__ = ["EXPLICIT", "Limits", "Mode", "Verification"]


class Verification(Settings, Instrument):
    """Hold every pass to its promise: equality with the results before it, or tolerance against the original model.

    Rewrites are checked at once and locally: what a rule takes out and what it puts in run side by side on values
    from the model, unless they are proved to keep all bits. The whole model runs after every pass of the pipeline that
    was neither checked nor proved so, at the end of every group, and at the end of the run (``mode`` ``"each"``); after
    every single pass, where annotations are compared with what is computed, too (``"every"``); or only at the end
    (``"final"``). If it fails, the run is repeated to find the first step and rewrite that are wrong. Where the model
    cannot be run, every step says so: that is a status of its own. Where it does not fit in memory, rewrites run by
    themselves. Each rewrite is proved, too, where that is cheap.
    """

    def before_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Choose how to verify this model, and get ready for it."""
        self._before: ir.Model | None = None
        self._strategy = self._choose(run, model)
        self._proofs = ProofSearch(self._methods(model), self.executor) if self.prove else None

    def _choose(self, run: RunRecord, model: ir.Model) -> Strategy:
        too_large = "" if self.inputs or self.expect else beyond_memory(model, self.executor)
        if not too_large:
            try:
                return WholeModel(self, run, model)
            except BeyondMemoryError as error:
                too_large = f"{error.what}, the limit of --memory-limit: {BY_FRAGMENTS}"
        return Piecewise(
            model, self.executor, self.memory, self.seed, lambda owner: promise_of([owner], self.limits), too_large
        )

    def _methods(self, model: ir.Model) -> list[Method]:
        # What is proved bit by bit, of the rule or here, is worth more than what is proved over the reals.
        here = Here(self.executor, self.effort, declared_inputs(model.graph))
        return [Certified("proved"), here, Certified("equal-in-reals"), Certified("tested")]

    def before_pass(self, record: StepRecord, step: Step, model: ir.Model) -> str | None:
        """Keep the model if the pass promises something about it, and get ready to look at rewrites."""
        if any(isinstance(claim, StructureClaim) for claim in step.pass_.claims):
            self._before = copy_model(model)
        self._strategy.before_pass(step, model)
        if self._proofs is not None:
            self._proofs.before_pass(step, model)
        return None

    def before_rewrite(self, application: Application) -> str | None:
        """Look for a proof of a rewrite, and take it in for its local check."""
        keeps_bits = self._proofs is not None and self._proofs.before_rewrite(application)
        self._strategy.before_rewrite(application, keeps_bits=keeps_bits)
        return None

    def after_rewrite(self, application: Application) -> None:
        """Keep the proof of a rewrite."""
        if self._proofs is not None:
            self._proofs.after_rewrite(application)

    def after_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Hold a pass to the structure and the results that it promises."""
        if not record.has_children:
            self._require_structure(record, step, model)
        if self._proofs is not None:
            self._proofs.after_pass(record, model)
        self._strategy.after_pass(record, step, model)

    def after_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Check the remaining steps, and return the evidence of the whole run."""
        self._strategy.after_pipeline(model)
        if self._proofs is not None:
            self._proofs.after_pipeline(model)
        run.level = level_of_run(run)
        if self.require is None:
            return
        wanted = self.require if isinstance(self.require, Finding) else parse_level(self.require)
        if not reaches(run.level, wanted):
            kind = UnverifiedError if run.level == UNVERIFIED else VerificationError
            told = "; ".join(obstacles(run, wanted)[:5])
            raise kind(f"'{wanted}' is required, the run is {run.level}: {told}")

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
