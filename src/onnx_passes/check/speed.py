"""The instrument that times a model in ONNX Runtime, before and after a run."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import cast

import onnx_ir as ir

from onnx_passes.check.narrowing import Narrowing
from onnx_passes.core.errors import ModelError, OnnxPassesError, UsageError
from onnx_passes.core.instruments import Instrument
from onnx_passes.core.plan import Step
from onnx_passes.core.records import Inference, RunRecord, StepRecord
from onnx_passes.verify.comparison.declarations import ChangesInterface
from onnx_passes.verify.run.execute import ExecutionError, Executor, Sample
from onnx_passes.verify.run.timing import SECONDS, TimedModel, time_in_turns
from onnx_passes.verify.samples.fitting import dynamic_axes, run_generated
from onnx_passes.verify.samples.generate import Redraw, Sampling, generate
from onnx_passes.verify.samples.reference import Source, read_inputs
from onnx_passes.verify.samples.sizes import dimension_key, dynamic_dimensions
from onnx_passes.verify.samples.sources import listed

_USUAL = {1: 128, 32: 224, 512: 16000}
"""Sizes of dynamic dimensions where time is measured, by the least ones: tokens, pixels, values of a signal."""


class Speed(Instrument):
    """Time a model before the first pass and after the last one, in turns, as ONNX Runtime runs it by default.

    It is run on the first of the ``inputs``, or on generated ones. What prevents that is noted, and harms nothing.
    """

    def __init__(
        self, *, inputs: Sequence[Source] = (), seconds: float = SECONDS, executor: Executor | None = None
    ) -> None:
        self.inputs, self.seconds, self.executor = listed(inputs), seconds, executor
        self._before: TimedModel | None = None
        self._sample: Sample = {}
        self._changes: list[ChangesInterface] = []

    def before_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Prepare the original model for timing."""
        self._before, self._changes = None, []
        narrowing = Narrowing(model, run.plan)
        try:
            if self.inputs:
                self._sample = narrowing.read(read_inputs(narrowing.model, self.inputs)[0])
            else:
                self._sample = narrowing.drawn(timed_sample(narrowing.model, executor=self.executor))
            self._before = TimedModel(model, self._sample, self.executor)
        except (ExecutionError, ModelError, UsageError) as error:
            run.inference = Inference(why=_reason(error))

    def after_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Note how the interface changes."""
        if record.modified and isinstance(step.pass_, ChangesInterface):
            # A pass tells of its last call, and may be called again.
            self._changes.append(copy.copy(step.pass_))

    def after_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Time both models."""
        if self._before is None:
            return
        sample = self._sample
        for change in self._changes:
            sample = change.inputs_after(sample)
        try:
            before, after = time_in_turns([self._before, TimedModel(model, sample, self.executor)], self.seconds)
        except (ExecutionError, ModelError, UsageError) as error:
            run.inference = Inference(why=_reason(error))
            return
        run.inference = Inference(before.least, after.least, before.runs, shapes_text(sample))


def timed_sample(
    model: ir.Model, *, dimensions: Mapping[str, int] | None = None, executor: Executor | None = None
) -> Sample:
    """Generate inputs of the size that a model usually gets, or of smaller ones where it does not take these."""
    given = dict(dimensions or {})
    sizes = {name: size for name, size in usual_sizes(model).items() if name not in given} | given
    ready = (executor or Executor()).prepare(model, engine="onnxruntime")
    try:
        sample = generate(model, samples=1, dimensions=sizes)[0]
        ready.run(sample)
    except ExecutionError:
        redraw = partial(Redraw, model, Sampling(sizes=given))
        taken, _ = run_generated(ready, generate(model, dimensions=given), dynamic_axes(model), redraw)
        sample = max(taken, key=lambda one: sum(array.size for array in one.values()))
    return sample


def usual_sizes(model: ir.Model) -> dict[str, int]:
    """Return sizes for the dynamic dimensions of inputs; one for those that come first, which count samples."""
    graph = model.graph
    inputs = {str(v.name): v for v in graph.inputs if str(v.name) not in graph.initializers and v.shape is not None}
    first = {key for name, value in inputs.items() for key in _keys(name, value)[:1]}
    # What is named after others, as 'past + 1', follows from them.
    found = {name: least for name, least in dynamic_dimensions(model, inputs).items() if not re.search("[+*-]", name)}
    return {name: 1 if name in first else _USUAL[least] for name, least in found.items()}


def _keys(name: str, value: ir.Value) -> list[str | None]:
    return [dimension_key(name, axis, dim) for axis, dim in enumerate(cast("ir.Shape", value.shape))]


def shapes_text(sample: Sample) -> str:
    """Name the inputs with their shapes."""
    return ", ".join(f"{name}[{','.join(map(str, array.shape))}]" for name, array in sample.items())


def _reason(error: OnnxPassesError) -> str:
    return f"{error.where}: {error.what}" if error.where else error.what
