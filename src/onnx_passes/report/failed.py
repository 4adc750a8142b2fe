"""Table of the steps of a failed run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_passes.core.instruments import Instrument
from onnx_passes.report.tables import standard_error, step_tables

if TYPE_CHECKING:
    import onnx_ir as ir
    from rich.console import Console

    from onnx_passes.core.records import RunRecord


class ShowFailedRun(Instrument):
    """Instrument that prints the measured metrics of the steps of a failed run."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console

    def pipeline_failed(self, run: RunRecord, model: ir.Model, error: BaseException) -> None:
        """Print the table, if anything was measured."""
        if run.metrics and run.steps:
            console = self.console or standard_error()
            for table in step_tables(run, console):
                console.print(table, "")
