"""Instruments around a pass that is called alone."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from onnx_passes.core.base import Pass, PassResult
from onnx_passes.core.frozen import frozen_weights
from onnx_passes.core.plan import Step, Why
from onnx_passes.core.records import ModelSize, RunRecord, Status, StepRecord
from onnx_passes.core.registry import REGISTRY


def run_alone(pass_: Pass, given: ir.Model | PassResult, call: Callable[[ir.Model], PassResult]) -> PassResult:
    """Call a pass between the hooks of the registered instruments; vetoes are ignored."""
    model = given.model if isinstance(given, PassResult) else given
    watchers = [make() for make in REGISTRY.watchers]
    step = Step(pass_, Why("requested"))
    run, record = RunRecord(step.text, ModelSize()), StepRecord(1, step.name, step.text, str(step.why))
    for watcher in watchers:
        watcher.before_pipeline(run, model)
        watcher.before_pass(record, step, model)
    with frozen_weights(model):
        result = call(model)
    record.status, record.modified = Status.DONE, result.modified
    for watcher in reversed(watchers):
        watcher.after_pass(record, step, result.model)
        watcher.after_pipeline(run, result.model)
    return result
