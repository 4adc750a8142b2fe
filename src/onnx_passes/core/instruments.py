"""Instruments observe a run: timing, printing and checking are never part of a pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx_ir as ir

    from onnx_passes.core.plan import Step
    from onnx_passes.core.records import Application, RunRecord, StepRecord


class Instrument:
    """Hooks around pipeline, pass and rule application, all empty; subclasses override some of them.

    A ``before_…`` hook of a pass or a rewrite may veto it by returning the reason as text.
    """

    def before_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Observe the model before the first step."""

    def after_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Observe the model after the last step, unless a step failed."""

    def pipeline_failed(self, run: RunRecord, model: ir.Model, error: BaseException) -> None:
        """Observe the model when the run ends with an error or an interrupt."""

    def before_pass(self, record: StepRecord, step: Step, model: ir.Model) -> str | None:
        """Observe the model before a pass; return a text to veto the pass."""

    def after_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Observe the model after a pass."""

    def pass_failed(self, record: StepRecord, step: Step, model: ir.Model, error: BaseException) -> None:
        """Observe the model that a pass left when it raised."""

    def before_rewrite(self, application: Application) -> str | None:
        """Observe a rewrite before it is applied; return a text to veto it."""

    def after_rewrite(self, application: Application) -> None:
        """Observe a rewrite after it was applied."""


class Limit(Instrument):
    """Veto rule applications after a number of them; numbers are stable from run to run."""

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
    """Veto all steps after a given one, and keep the model after it."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.text = ""
        self.model: ir.Model | None = None

    def before_pass(self, record: StepRecord, step: Step, model: ir.Model) -> str | None:
        """Veto later steps; numbers are stable from run to run."""
        return f"stopped after step {self.step}" if record.number > self.step else None

    def after_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Keep the model after the step."""
        if record.number == self.step:
            self.text, self.model = step.text, model
