"""All steps of a session as one recorded run: who asks why, or for a report, asks for the whole way."""

from __future__ import annotations

from onnx_passes.api import Result, run_plan
from onnx_passes.core.records import StepRecord
from onnx_passes.graph.copy import copy_model
from onnx_passes.history.recording import Recording
from onnx_passes.session.data import plan_of
from onnx_passes.session.states import SessionState
from onnx_passes.verify.comparison.levels import level_of_run


def replay(state: SessionState) -> Result:
    """Repeat what led to a state, recorded; what is known of its steps, and what they cost, is as they found it.

    Verification is not repeated, which is most of what a step costs.
    """
    result = run_plan(plan_of(state), copy_model(state.path()[0].model), (), Recording())
    run, before = result.record, [each.result for each in state.path() if each.result is not None]
    _take_over([step for each in before for step in each.steps], run.steps)
    run.cpu, run.wall = sum(each.record.cpu for each in before), sum(each.record.wall for each in before)
    run.level = level_of_run(run)
    return result


def _take_over(known: list[StepRecord], steps: list[StepRecord]) -> None:
    """Give steps the evidence and the time of those that they repeat; a plan has the same steps each time it runs."""
    if [step.name for step in known] != [step.name for step in steps]:
        return
    for old, new in zip(known, steps, strict=True):
        new.evidence, new.proofs, new.cpu, new.wall = old.evidence, old.proofs, old.cpu, old.wall
