"""The original model of a verdict, with its samples and results, which are established when something changes it."""

from __future__ import annotations

import copy
from collections.abc import Callable

import onnx_ir as ir

from onnx_passes.check.baseline import Baseline, Narrowing, Start
from onnx_passes.check.settings import Settings
from onnx_passes.core.errors import ModelError, OnnxPassesError
from onnx_passes.core.plan import Plan
from onnx_passes.graph.copy import copy_model
from onnx_passes.verify.local.unreached import Unreached
from onnx_passes.verify.run.execute import ExecutionError, MemoryLimitError
from onnx_passes.verify.samples.reference import read_outputs

PAIR = 1
"""The number of the step from the first of two models to the second."""


class BeyondMemoryError(OnnxPassesError):
    """The whole model takes more memory than it may."""


class Original:
    """A model that others are compared with, and the baseline of the comparison: samples, and what it returns for them.

    It runs at once if data are given, else when the baseline is first asked for. ``obstacle`` is the reason if there is
    none. ``source`` returns the model anew. Raises ExecutionError if the model does not run on data that are given,
    and BeyondMemoryError if it does not fit in memory.
    """

    def __init__(self, model: ir.Model, settings: Settings, plan: Plan | None = None) -> None:
        self.obstacle = ""
        self._settings = settings
        self._start: Start | None = None
        self._baseline: Baseline | None = None
        if settings.source is not None:
            self.source: Callable[[], ir.Model] = settings.source
        else:
            kept = copy_model(model)
            self.source = lambda: copy_model(kept)
        self.has_bodies = Unreached.concerns(model)
        self._begin(model, Narrowing(model, plan))

    def _begin(self, model: ir.Model, narrowing: Narrowing) -> None:
        """Read or draw data and, where they are given, run the model."""
        settings = self._settings
        try:
            self._start = start = Start(model, settings.inputs, settings.sampling, settings.executor, narrowing)
            if settings.inputs or settings.expect or settings.mode == "every" or start.may_not_fit:
                baseline = self._establish(start)
                if settings.expect:
                    outputs = read_outputs(narrowing.model, settings.expect, samples=len(baseline.samples))
                    baseline.expect(outputs, settings.limits)
        except MemoryLimitError as error:
            if settings.inputs or settings.expect:
                raise
            raise BeyondMemoryError(error.what) from error
        except (ExecutionError, ModelError) as error:
            if settings.inputs:
                raise
            self.obstacle = str(error)

    @property
    def waits(self) -> bool:
        """Return whether the model has not run yet."""
        return self._start is not None

    @property
    def baseline(self) -> Baseline | None:
        """Return the baseline if there is one already."""
        return self._baseline

    def established(self) -> Baseline | None:
        """Return the baseline, running the model if it waits; None if there is an obstacle."""
        if self._start is not None:
            try:
                self._establish(self._start)
            except ExecutionError as error:
                self.obstacle = str(error)
        return self._baseline

    def baseline_for(self, model: ir.Model) -> Baseline | None:
        """Return a baseline for the verdict on one model, which leaves no trace in that of another one."""
        known = self.established()
        if known is None:
            return None
        baseline = copy.copy(known)
        baseline.specials = copy.copy(known.specials)
        if self.has_bodies or Unreached.concerns(model):
            baseline.unreached = self._unreached(baseline)
            baseline.unreached.note(PAIR, model)
        return baseline

    def drop(self, obstacle: str) -> None:
        """Give up the baseline: no model can be compared any more."""
        self.obstacle, self._start, self._baseline = obstacle, None, None

    def put_back(self, baseline: Baseline | None) -> None:
        """Restore a baseline that was dropped."""
        self._baseline = baseline

    def follow(self, number: int, model: ir.Model) -> None:
        """Note the graphs inside the model that a step has left."""
        if self._baseline is None:
            return
        if not self.has_bodies and Unreached.concerns(model):
            self.has_bodies = True
            self._look_inside(self._baseline)
        if self._baseline.unreached is not None:
            self._baseline.unreached.note(number, model)

    def is_executed(self, model: ir.Model) -> bool:
        """Return whether a model is, byte by byte, what ran last or, before anything changed it, would have."""
        if self._start is not None:
            return self._start.is_unchanged(self._settings.executor, model)
        return self._baseline is not None and self._baseline.ran(self._settings.executor, model)

    def _establish(self, start: Start) -> Baseline:
        self._start = None
        self._baseline = baseline = start.establish()
        self._look_inside(baseline)
        return baseline

    def _look_inside(self, baseline: Baseline) -> None:
        """Run what no sample reaches alone, in the original model: that of a run may have changed already."""
        if self.has_bodies:
            baseline.unreached = self._unreached(baseline)

    def _unreached(self, baseline: Baseline) -> Unreached:
        found = Unreached(self.source, baseline.given, self._settings.executor, baseline.engine)
        found.follow(baseline.samples)
        return found
