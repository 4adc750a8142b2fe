"""Run a pipeline again up to a step: steps have the same numbers in every run."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from onnx_passes.core.instruments import Instrument, StopAfter
from onnx_passes.core.manager import Manager
from onnx_passes.core.plan import Plan


class Replay:
    """Repeats a run from the model that it started with, which ``source`` returns anew each time."""

    def __init__(self, plan: Plan, source: Callable[[], ir.Model]) -> None:
        self.plan = plan
        self.source = source

    def after_step(self, step: int, *watchers: Instrument) -> ir.Model:
        """Return the model as it was after a step; 0 is before the first."""
        return self._run(StopAfter(step), *watchers) if step else self.source()

    def _run(self, *instruments: Instrument) -> ir.Model:
        return Manager(instruments).run(self.plan, self.source()).model
