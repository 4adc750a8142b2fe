"""Structural properties that a run asks for: whatever changes the model must leave it with them."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from onnx_passes.core.errors import StructureError
from onnx_passes.core.instruments import Instrument
from onnx_passes.core.plan import Step
from onnx_passes.core.records import RunRecord, StepRecord
from onnx_passes.graph.copy import copy_model
from onnx_passes.verify.failure import Failure, failed_step
from onnx_passes.verify.structure.vocabulary import parse_property
from onnx_passes.verify.verification import Mode


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
        """Look at what a pass made of the model; a sequence is its members."""
        if record.has_children or not record.modified:
            return
        self._last, self._is_open = (record, step), True
        if self.mode == "each":
            self._require(model)
            self._remember(model)

    def after_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Look at the result, if nobody did yet."""
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
                f"the model has not the structure asked for: {told}", hint="no pass of this run changed the model"
            )
        record, step = self._last
        facts = {"asked for": ", ".join(dict.fromkeys(violation.property for violation in violations))}
        failed = failed_step(record, step, Failure(record.number, step.text, "structure", told, facts=facts))
        raise failed from failed.__cause__
