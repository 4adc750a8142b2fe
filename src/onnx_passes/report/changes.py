"""Show the changes of every pass as a difference of the printed graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

import numpy as np
import onnx_ir as ir

from onnx_passes.core.instruments import Instrument
from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.diff import text_diff
from onnx_passes.graph.hashing.content import Contents

if TYPE_CHECKING:
    from onnx_passes.core.plan import Step
    from onnx_passes.core.records import RunRecord, StepRecord

_FEW = 12
"""Constants of so many elements are printed in full."""


class PrintChanged(Instrument):
    """Print a unified difference after every pass that changed the model; in colour on a terminal that has them."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self._before: ir.Model | None = None
        self._contents = Contents()

    def before_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Keep the original model."""
        self._before = copy_model(model)

    def after_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Print the changes of a pass; a sequence is printed by its members."""
        if record.has_children or not record.modified or self._before is None:
            return
        label = f"{record.number:03} {record.text}"
        difference = text_diff(self._before, model, f"before {label}", f"after {label}", self._contents)
        if difference:
            self._print(difference, {"-": self._before, "+": model})
        self._before = copy_model(model)

    def _print(self, difference: str, models: dict[str, ir.Model]) -> None:
        from onnx_passes.report.coloured import coloured, coloured_console

        console = coloured_console(self.stream)
        if console is None:
            self.stream.write(difference.rstrip("\n") + "\n")
            self.stream.flush()
            return
        text = coloured(difference, lambda sign, name: _summary(models[sign].graph.initializers.get(name)))
        console.print(text, soft_wrap=True, end="")


def _summary(value: ir.Value | None) -> str:
    """Summarize the elements of a large numeric constant."""
    tensor = None if value is None else value.const_value
    if tensor is None or tensor.size <= _FEW or not (tensor.dtype.is_floating_point() or tensor.dtype.is_integer()):
        return ""
    numbers = tensor.numpy().astype(np.float64)
    numbers = numbers[np.isfinite(numbers)]
    if not numbers.size:
        return "no finite number"
    zeros = float((numbers == 0).mean())
    sparse = f", {zeros:.0%} zeros" if zeros > 0.01 else ""
    return f"{numbers.min():.4g} … {numbers.max():.4g}{sparse}".replace("-", "−")
