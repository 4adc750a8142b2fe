"""Show what every pass changed, as a difference of the printed graph."""

from __future__ import annotations

from typing import TextIO

import onnx_ir as ir

from onnx_passes.core.instruments import Instrument
from onnx_passes.core.plan import Step
from onnx_passes.core.records import RunRecord, StepRecord
from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.diff import text_diff
from onnx_passes.graph.hashing.content import Contents


class PrintChanged(Instrument):
    """Print a unified difference after every pass that changed the model."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self._before: ir.Model | None = None
        self._contents = Contents()

    def before_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Keep the model as it came."""
        self._before = copy_model(model)

    def after_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Print what a pass changed; a sequence is its members."""
        if record.has_children or not record.modified or self._before is None:
            return
        label = f"{record.number:03} {record.text}"
        difference = text_diff(self._before, model, f"before {label}", f"after {label}", self._contents)
        if difference:
            self.stream.write(difference.rstrip("\n") + "\n")
            self.stream.flush()
        self._before = copy_model(model)
