"""Steps of a repeated run whose rewrites are checked where they stand, however many they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.core.instruments import Instrument
from onnx_passes.core.plan import Step
from onnx_passes.core.records import Application, StepRecord
from onnx_passes.verify.comparison.promise import Limits, promise_of
from onnx_passes.verify.local.windows import MANY, Windows
from onnx_passes.verify.run.activations import Activations
from onnx_passes.verify.run.execute import ExecutionError, Executor, Sample
from onnx_passes.verify.ties.explain import UnexplainedError


class CheckedAgain(Instrument):
    """Checks all rewrites of ``steps``, by number, on samples.

    A step that changes much is not checked so while passes run, as running the model is cheaper: only where results
    differ it matters that each of its rewrites holds. Raises UnexplainedError for one that does not.
    """

    def __init__(
        self, steps: Mapping[int, Step], samples: Sequence[Sample], limits: Limits, executor: Executor
    ) -> None:
        self._steps, self._samples, self._limits, self._executor = steps, samples, limits, executor
        self._windows: Windows | None = None
        self._settled = 0

    def before_pass(self, record: StepRecord, step: Step, model: ir.Model) -> str | None:
        """Run the model for the values that its nodes read, if rewrites of the step are to be checked."""
        self._windows, self._settled = None, 0
        if record.number in self._steps:
            known = Activations(self._executor)
            try:
                known.fill(model, self._samples)
            except (ExecutionError, ModelError) as error:
                raise UnexplainedError(str(error)) from error
            self._windows = Windows(model, 2 * MANY, known)
        return None

    def before_rewrite(self, application: Application) -> str | None:
        """Take in a rewrite."""
        self._settled += application.settled
        if self._windows is not None and application.replaced and not application.settled:
            self._windows.add(application)
        return None

    def after_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Check the rewrites of the step."""
        windows, self._windows = self._windows, None
        if windows is None or record.number not in self._steps:
            return
        if windows.missed or len(windows.windows) + self._settled != record.applications or not windows.windows:
            raise UnexplainedError(f"the rewrites of {step.name} could not be checked where they stand")
        try:
            checks = windows.run(self._executor)
        except (ExecutionError, ModelError) as error:
            raise UnexplainedError(str(error)) from error
        wrong = windows.first_wrong(
            checks, lambda owner: promise_of([owner or step.pass_], self._limits), self._executor
        )
        if wrong is not None:
            raise UnexplainedError(f"rewrite {wrong[0]} of {step.name} is wrong where it stands: {wrong[2]}")
