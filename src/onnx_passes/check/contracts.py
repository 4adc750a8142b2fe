"""Contracts that hold after every pass: those of its kind, by digest, and structural properties that a run asks for."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from onnx_passes.check.verification import Mode
from onnx_passes.core.errors import ContractError, StructureError
from onnx_passes.core.instruments import Instrument
from onnx_passes.core.plan import Step
from onnx_passes.core.records import Application, RunRecord, StepRecord
from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.hashing.fingerprint import Fingerprinter, wiring
from onnx_passes.verify.failure import Failure, failed_step
from onnx_passes.verify.structure.vocabulary import parse_property


class Paranoid(Instrument):
    """Compare digests around every pass.

    An analysis changes nothing at all; an annotation changes no structure; a pass that reports no change has
    made none; a pass that announces its rewrites changes no structure beside them. A pass that reports a change without
    one is noted: it costs time, not correctness.
    """

    def __init__(self) -> None:
        self._identity = Fingerprinter.within_run()
        self._before: dict[int, tuple[bytes, bytes]] = {}
        self._announcing: tuple[Step, ir.Model] | None = None
        self._wiring = 0

    def before_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Start with no open passes."""
        self._before.clear()
        self._announcing = None

    def before_pass(self, record: StepRecord, step: Step, model: ir.Model) -> str | None:
        """Take the digests that the pass is measured against."""
        self._before[record.number] = self._digests(model)
        self._announcing = (step, model) if step.pass_.announces() else None
        self._note_wiring()
        return None

    def before_rewrite(self, application: Application) -> str | None:
        """Refuse changes since the last rewrite."""
        self._require_wiring(f"before rewrite {application.number}, '{application.rule}'")
        return None

    def after_rewrite(self, application: Application) -> None:
        """Record the changes of the rewrite."""
        self._note_wiring()

    def after_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Hold the pass to its kind, to its rewrites, and to what it reported."""
        self._require_wiring("after its last rewrite")
        self._announcing = None
        structure, everything = self._before.pop(record.number)
        structure_now, everything_now = self._digests(model)
        kind = step.pass_.kind
        if kind == "analysis" and everything != everything_now:
            raise _broken(step, "is an analysis but changed the model", "an Analysis must not change anything")
        if kind == "annotation" and structure != structure_now:
            raise _broken(
                step, "is an annotation but changed structure or values", "derive from Transformation if that is wanted"
            )
        if not record.modified and everything != everything_now:
            raise _broken(step, "reported no change but changed the model", "return PassResult(model, modified=True)")
        if record.modified and everything == everything_now:
            record.notes.append("reported a change but made none")

    def _note_wiring(self) -> None:
        if self._announcing is not None:
            self._wiring = wiring(self._announcing[1])

    def _require_wiring(self, when: str) -> None:
        if self._announcing is not None and wiring(self._announcing[1]) != self._wiring:
            step, self._announcing = self._announcing[0], None
            raise _broken(
                step, f"changed the model beside its rewrites, {when}", "make every change through the editor"
            )

    def _digests(self, model: ir.Model) -> tuple[bytes, bytes]:
        return self._identity.structural(model), self._identity.full(model)


def _broken(step: Step, what: str, hint: str) -> ContractError:
    return ContractError(f"pass '{step.name}' {what}", hint=hint)


class Requirements(Instrument):
    """Hold the model to structural properties after every pass that changed it, or only at the end.

    Properties are objects, text or data of a configuration. The model before a property with ``before`` is the one
    that the pass was given; at the end of a run, the one that the run was given.
    """

    def __init__(self, properties: Iterable[object], *, mode: Mode = "each") -> None:
        self.properties = tuple(map(parse_property, properties))
        self.mode = mode
        self._before: ir.Model | None = None
        self._last: tuple[StepRecord, Step] | None = None
        self._is_open = True

    def before_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Remember the model, if a property compares with it."""
        self._last, self._is_open = None, True
        self._remember(model)

    def after_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Check the result of a pass; a sequence is checked by its members."""
        if record.has_children or not record.modified:
            return
        self._last, self._is_open = (record, step), True
        if self.mode == "each":
            self._require(model)
            self._remember(model)

    def after_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Check the result, unless it was checked already."""
        if self._is_open:
            self._require(model)

    def _remember(self, model: ir.Model) -> None:
        if any(prop.needs_before for prop in self.properties):
            self._before = copy_model(model)

    def _require(self, model: ir.Model) -> None:
        violations = [v for prop in self.properties for v in prop.violations(model, self._before)]
        self._is_open = False
        if not violations:
            return
        told = "; ".join(map(str, violations))
        if self._last is None:
            raise StructureError(
                f"the model violates required properties: {told}", hint="no pass of this run changed the model"
            )
        record, step = self._last
        facts = {"asked for": ", ".join(dict.fromkeys(violation.property for violation in violations))}
        failed = failed_step(record, step, Failure(record.number, step.text, "structure", told, facts=facts))
        raise failed from failed.__cause__
