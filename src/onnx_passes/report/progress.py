"""Progress on a terminal, shown only when a run takes long."""

from __future__ import annotations

import time
from typing import Any

import onnx_ir as ir

from onnx_passes.core.instruments import Instrument
from onnx_passes.core.plan import Step
from onnx_passes.core.records import Application, RunRecord, StepRecord


class Progress(Instrument):
    """A status line on standard error: the pass that runs, and how many rewrites it made."""

    def __init__(self, patience: float = 0.7) -> None:
        self.patience = patience
        self._started = 0.0
        self._status: Any = None
        self._current = ""

    def before_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Start the clock."""
        self._started = time.perf_counter()

    def before_pass(self, record: StepRecord, step: Step, model: ir.Model) -> str | None:
        """Name the pass."""
        self._current = record.name
        self._show(record.name)
        return None

    def after_rewrite(self, application: Application) -> None:
        """Count rewrites, now and then."""
        if application.number % 64 == 0:
            self._show(f"{self._current}: {application.step.applications} rewrites")

    def after_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Clear the line."""
        self._stop()

    def pipeline_failed(self, run: RunRecord, model: ir.Model, error: BaseException) -> None:
        """Clear the line before the error is shown."""
        self._stop()

    def _show(self, text: str) -> None:
        if time.perf_counter() - self._started < self.patience:
            return
        if self._status is None:
            from rich.console import Console

            self._status = Console(stderr=True).status(text)
            self._status.start()
        else:
            self._status.update(text)

    def _stop(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None
