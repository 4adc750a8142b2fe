"""Instruments watch a run from outside: nothing of timing, printing or checking is inside a pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx_ir as ir

    from onnx_passes.core.plan import Step
    from onnx_passes.core.records import Application, RunRecord, StepRecord


class Instrument:
    """Hooks around pipeline, pass and rule application; override what you need.

    A ``before_…`` hook of a pass or a rewrite may veto it by returning the reason as text.
    """

    def before_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """See the model before the first step."""

    def after_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """See the model after the last step; not called when a step failed."""

    def pipeline_failed(self, run: RunRecord, model: ir.Model, error: BaseException) -> None:
        """See what is left when the run ends with an error or an interrupt."""

    def before_pass(self, record: StepRecord, step: Step, model: ir.Model) -> str | None:
        """See the model before a pass; a text vetoes the pass."""

    def after_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """See the model after a pass."""

    def pass_failed(self, record: StepRecord, step: Step, model: ir.Model, error: BaseException) -> None:
        """See the model that a pass left behind when it raised."""

    def before_rewrite(self, application: Application) -> str | None:
        """See a rewrite that is ready to be applied; a text vetoes it."""

    def after_rewrite(self, application: Application) -> None:
        """See a rewrite that was applied."""


class Limit(Instrument):
    """Stop changing the model after a number of rule applications; numbers are stable from run to run."""

    def __init__(self, applications: int) -> None:
        self.limit = applications
        self.reached = False

    @property
    def _reason(self) -> str:
        return f"limit of {self.limit} rule applications reached"

    def before_pass(self, record: StepRecord, step: Step, model: ir.Model) -> str | None:
        """Veto passes that would change the model once the limit is reached."""
        changes = step.pass_.kind in ("annotation", "transformation")
        return self._reason if self.reached and changes else None

    def before_rewrite(self, application: Application) -> str | None:
        """Veto applications beyond the limit."""
        if application.number > self.limit:
            self.reached = True
            return self._reason
        return None


class StopAfter(Instrument):
    """Let a run do nothing more after a step, and keep the model that is there then."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.text = ""
        self.model: ir.Model | None = None

    def before_pass(self, record: StepRecord, step: Step, model: ir.Model) -> str | None:
        """Veto later steps; numbers are stable from run to run."""
        return f"stopped after step {self.step}" if record.number > self.step else None

    def after_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Note the model after the step."""
        if record.number == self.step:
            self.text, self.model = step.text, model
