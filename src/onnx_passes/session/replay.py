"""All steps of a session as one recorded run, for questions about the whole history."""

from __future__ import annotations

from onnx_passes.api import Result, run_plan
from onnx_passes.core.records import StepRecord
from onnx_passes.graph.copy import copy_model
from onnx_passes.history.recording import Recording
from onnx_passes.session.data import plan_of
from onnx_passes.session.states import SessionState
from onnx_passes.verify.comparison.evidence import level_of_run


def replay(state: SessionState) -> Result:
    """Repeat the steps to a state with recording; evidence and times of the steps are kept.

    Verification, which is most of the cost of a step, is not repeated.
    """
    result = run_plan(plan_of(state), copy_model(state.path()[0].model), (), Recording())
    run, before = result.record, [each.result for each in state.path() if each.result is not None]
    _take_over([step for each in before for step in each.steps], run.steps)
    run.cpu, run.wall = sum(each.record.cpu for each in before), sum(each.record.wall for each in before)
    run.level = level_of_run(run)
    return result


def _take_over(known: list[StepRecord], steps: list[StepRecord]) -> None:
    """Copy evidence and times to repeated steps; a plan has the same steps each time it runs."""
    if [step.name for step in known] != [step.name for step in steps]:
        return
    for old, new in zip(known, steps, strict=True):
        new.evidence, new.proofs, new.cpu, new.wall = old.evidence, old.proofs, old.cpu, old.wall
