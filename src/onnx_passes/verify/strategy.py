"""How passes are held to what they promise, called around each pass and rewrite."""

from __future__ import annotations

from typing import Protocol

import onnx_ir as ir

from onnx_passes.core.plan import Step
from onnx_passes.core.records import Application, StepRecord


class Strategy(Protocol):
    """Gives evidence to the steps of one run, and raises where a pass breaks its promise."""

    def before_pass(self, step: Step, model: ir.Model) -> None:
        """Get ready to look at the rewrites of a pass."""
        ...

    def before_rewrite(self, application: Application, *, keeps_bits: bool) -> None:
        """Take in a rewrite before it changes the graph; ``keeps_bits`` says that this is proved of it."""
        ...

    def after_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Check what a pass did, at once or with what follows."""
        ...

    def after_pipeline(self, model: ir.Model) -> None:
        """Check what is not checked yet."""
        ...
