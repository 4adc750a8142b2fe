"""Dump of all values of one sample, before the first pass and after each pass that changed the model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.shapes.standard_engine import fill_gaps
from onnx_passes.core.errors import ModelError, UsageError
from onnx_passes.core.instruments import Instrument
from onnx_passes.core.plan import Step
from onnx_passes.core.records import RunRecord, StepRecord
from onnx_passes.debug.intermediates import make_folder
from onnx_passes.graph.copy import copy_model
from onnx_passes.verify.run.execute import Engine, ExecutionError, Executor, Sample
from onnx_passes.verify.run.pack import WIDER_TYPES
from onnx_passes.verify.samples.dataset import Dataset
from onnx_passes.verify.samples.generate import generate
from onnx_passes.verify.samples.numpy_files import write_numpy
from onnx_passes.verify.samples.reference import Array, Source
from onnx_passes.verify.samples.sources import listed

LIMIT = 2**30
"""Default limit for the total bytes of the files of a run."""


class ContextDump(Instrument):
    """Save ``000-input.npz``, then one numbered file for each pass that changed the model.

    A file holds inputs, outputs and all values between them by name for the first sample; values inside subgraphs and
    functions are left out. Types that numpy cannot store are widened, or stored as bits. Notes list these, and values
    that did not fit into ``limit`` bytes for all files of the run.
    """

    def __init__(
        self,
        folder: Path,
        *,
        inputs: Sequence[Source] = (),
        seed: int = 0,
        executor: Executor | None = None,
        limit: int = LIMIT,
    ) -> None:
        self.folder = folder
        self.inputs = listed(inputs)
        self.seed = seed
        self.executor = executor or Executor()
        self.limit = limit
        self._sample: Sample | None = None
        self._engine: Engine | None = None
        self._room = limit
        self._notes: list[str] = []

    def before_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Create the folder, choose the sample and save the values of the original model."""
        make_folder(self.folder)
        self._room, self._sample, self._engine, self._notes = self.limit, None, None, []
        try:
            self._sample = self._first_sample(model)
        except (ExecutionError, ModelError) as error:
            self._notes = [f"no context is dumped: {error}"]
            return
        self._save("000-input.npz", model, self._sample)

    def after_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Save the values if a pass changed the model; for a sequence, its members do."""
        if record.modified and not record.has_children and self._sample is not None:
            name = re.sub(r"[^\w.-]+", "-", record.name)
            self._save(f"{record.number:03}-{name}.npz", model, self._sample)
        record.notes.extend(self._notes)
        self._notes = []

    def _first_sample(self, model: ir.Model) -> Sample:
        if self.inputs:
            return next(iter(Dataset.read(model, self.inputs, batch=1))).inputs
        try:
            return generate(model, seed=self.seed, samples=1)[0]
        except UsageError as error:
            raise ExecutionError(str(error)) from error

    def _save(self, name: str, model: ir.Model, sample: Sample) -> None:
        values = _interior(model)
        if any(value.type is None for value in values):
            # Values of types that ONNX Runtime cannot return must be excluded, or the whole run fails.
            model = copy_model(model)
            fill_gaps(model, data_prop=False)
            values = _interior(model)
        try:
            ready = self.executor.prepare(model, also=values, engine=self._engine)
            self._engine = ready.engine
            found = ready.run(sample)
        except ExecutionError as error:
            self._notes.append(f"no {name}: {error}")
            return
        self._write(self.folder / name, {**sample, **found})

    def _write(self, path: Path, values: Mapping[str, Any]) -> None:
        chosen: dict[str, Array] = {}
        changed: Counter[str] = Counter()
        for name, value in values.items():
            array, change = _storable(value)
            if array is not None and array.nbytes > self._room:
                array, change = None, f"left out: the limit of {self.limit:,} bytes is reached"
            if change:
                changed[change] += 1
            if array is not None:
                chosen[name] = array
                self._room -= array.nbytes
        self._notes.extend(
            f"{path.name}: {number} of {len(values)} values {change}" for change, number in changed.items()
        )
        if chosen or not values:
            write_numpy(path, chosen)


def _interior(model: ir.Model) -> list[ir.Value]:
    return [value for node in model.graph for value in node.outputs if value.name]


def _storable(value: object) -> tuple[Array | None, str]:
    """Return a value in a form that numpy can store, and a note on the conversion."""
    if not isinstance(value, np.ndarray):
        return None, "left out: no tensors"
    array = cast(Array, value)
    if array.dtype.kind == "O":
        return array.astype(str), ""
    if array.dtype.isbuiltin != 2:
        return array, ""
    try:
        wider = WIDER_TYPES.get(ir.DataType.from_numpy(array.dtype))
    except TypeError:
        wider = None
    if wider is not None:
        return array.astype(wider.numpy()), f"of {array.dtype.name} widened to {wider.numpy().name}"
    return array.view(np.dtype(f"u{array.dtype.itemsize}")), f"of {array.dtype.name} kept as bits"
