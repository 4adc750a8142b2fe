"""The contracts of the kinds of passes, enforced by digest: who says unchanged must not have changed."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.core.errors import ContractError
from onnx_passes.core.fingerprint import Fingerprinter
from onnx_passes.core.instruments import Instrument
from onnx_passes.core.plan import Step
from onnx_passes.core.records import RunRecord, StepRecord


class Paranoid(Instrument):
    """Compare digests around every pass.

    An analysis changes nothing at all; an annotation changes no structure; a pass that reports no change has
    made none. A pass that reports a change without one is noted: it costs time, not correctness.
    """

    def __init__(self) -> None:
        self._identity = Fingerprinter()
        self._before: dict[int, tuple[bytes, bytes]] = {}

    def before_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Start with no open passes."""
        self._before.clear()

    def before_pass(self, record: StepRecord, step: Step, model: ir.Model) -> str | None:
        """Take the digests that the pass is measured against."""
        self._before[record.number] = self._digests(model)
        return None

    def after_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Hold the pass to its kind and to what it reported."""
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

    def _digests(self, model: ir.Model) -> tuple[bytes, bytes]:
        return self._identity.structural(model), self._identity.full(model)


def _broken(step: Step, what: str, hint: str) -> ContractError:
    return ContractError(f"pass '{step.name}' {what}", hint=hint)
