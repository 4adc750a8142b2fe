"""The contracts of the kinds of passes, enforced by digest: who says unchanged must not have changed."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.core.errors import ContractError
from onnx_passes.core.instruments import Instrument
from onnx_passes.core.plan import Step
from onnx_passes.core.records import Application, RunRecord, StepRecord
from onnx_passes.graph.hashing.fingerprint import Fingerprinter
from onnx_passes.graph.wiring import wiring


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
        """Refuse what was changed since the last rewrite."""
        self._require_wiring(f"before rewrite {application.number}, '{application.rule}'")
        return None

    def after_rewrite(self, application: Application) -> None:
        """Take in what the rewrite changed."""
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
