"""Instrument that records every step and application of a run."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.core.instruments import Instrument
from onnx_passes.core.plan import Step
from onnx_passes.core.records import Application, RunRecord, StepRecord
from onnx_passes.history.items import Applied, Item, added_items, matched_items


@dataclass(frozen=True)
class Leaf:
    """Step that is not a sequence; ``first`` is the number of applications before it in the run."""

    record: StepRecord
    step: Step
    first: int
    applications: int
    failed: bool = False

    @property
    def number(self) -> int:
        """Return the number of the step."""
        return self.record.number

    @property
    def modified(self) -> bool:
        """Return whether the step changed the model."""
        return self.record.modified


@dataclass(frozen=True)
class StepFailure:
    """The step that ended a run, and its error."""

    number: int
    error: BaseException


class Trace(Instrument):
    """Record of all steps and applications, and the model at the end, also of a failed run."""

    model: ir.Model

    def __init__(self) -> None:
        self.leaves: list[Leaf] = []
        self.applications: list[Applied] = []
        self.failure: StepFailure | None = None
        self._first = 0
        self._matched: tuple[Item, ...] = ()

    @property
    def steps(self) -> int:
        """Return the number of the last step."""
        return max((leaf.number for leaf in self.leaves), default=0)

    def before_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Store the model, which passes change in place."""
        self.model = model

    def before_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Store the number of applications before a step."""
        self._first = len(self.applications)

    def after_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Record a step that is not a sequence."""
        self.model = model
        if not record.has_children:
            self._note(record, step, failed=False)

    def pass_failed(self, record: StepRecord, step: Step, model: ir.Model, error: BaseException) -> None:
        """Record the innermost step that failed: the sequences around it fail with it."""
        if self.failure is None:
            self.model = model
            self.failure = StepFailure(record.number, error)
            self._note(record, step, failed=True)

    def _note(self, record: StepRecord, step: Step, *, failed: bool) -> None:
        first = len(self.applications) if record.has_children else self._first
        applications = len(self.applications) - first
        self.leaves.append(Leaf(record, step, first, applications, failed))

    def before_rewrite(self, application: Application) -> None:
        """Describe a rewrite before it is applied."""
        self._matched = matched_items(application)

    def after_rewrite(self, application: Application) -> None:
        """Describe a rewrite that was applied."""
        self.applications.append(
            Applied(
                application.number,
                application.step.number,
                application.rule,
                application.source,
                self._matched,
                added_items(application),
            )
        )
