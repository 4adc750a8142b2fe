"""Copies of the model after every pass that changed it: numbered files, or one file with the latest."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir

from onnx_passes.core.errors import UsageError
from onnx_passes.core.instruments import Instrument
from onnx_passes.core.plan import Step
from onnx_passes.core.records import RunRecord, StepRecord
from onnx_passes.graph.save import save


class KeepIntermediates(Instrument):
    """Save ``000-input.onnx``, then one numbered file for each pass that changed the model."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def before_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Create the folder and save the original model."""
        make_folder(self.folder)
        save(model, self.folder / "000-input.onnx")

    def after_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Save the model if a pass changed it; for a sequence, its members do."""
        if record.modified and not record.has_children:
            save(model, self.folder / f"{record.number:03}-{record.name}.onnx")


def make_folder(folder: Path) -> None:
    """Create a folder for files of a run. Raises UsageError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot be created: {error.strerror}", where=str(folder), hint="choose another folder"
        ) from error


class Checkpoint(Instrument):
    """Save the model to one file after each pass that changed it, so that a crash loses nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def after_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Replace the file if a pass changed the model; for a sequence, its members do."""
        if record.modified and not record.has_children:
            save(model, self.path)
