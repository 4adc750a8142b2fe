"""Levels of evidence that are asked for: a run is as good as its weakest step."""

from __future__ import annotations

from onnx_passes.core.errors import UsageError, did_you_mean
from onnx_passes.core.evidence import LADDER, rank, weakest
from onnx_passes.core.records import RunRecord, StepRecord


def parse_level(text: str) -> str:
    """Read the name of a level that can be required."""
    known = LADDER[:-1]
    if text not in known:
        raise UsageError(f"there is no level of evidence '{text}'", hint=did_you_mean(text, known) or ", ".join(known))
    return text


def level_of(run: RunRecord) -> str:
    """Return the weakest level over the steps that changed the model; ``unchanged`` if none did."""
    return weakest(step.level for step in _decisive(run))


def below(run: RunRecord, level: str) -> list[StepRecord]:
    """List the steps whose evidence is weaker than a level."""
    return [step for step in _decisive(run) if rank(step.level) > rank(level)]


def _decisive(run: RunRecord) -> list[StepRecord]:
    """List the steps that changed the model, and what could not be checked; all, where there are none.

    A check between steps says of them what it found; by itself it changes nothing.
    """
    steps = list(run.leaves())
    return [step for step in steps if step.modified or rank(step.level) >= rank("unverified")] or steps


def obstacle(step: StepRecord, level: str) -> str:
    """Say what stands between a step and a level: its first rewrite of which no more is known, and why."""
    weak = [proof for proof in step.proofs if not proof.level or rank(proof.level) > rank(level)]
    if weak:
        rewrites = f"{len(weak)} of {step.applications} rewrites"
        return f"{step.level}; {rewrites}, first {weak[0].application}, '{weak[0].rule}': {weak[0].text}"
    reason = step.evidence.reason if step.evidence is not None else ""
    return f"{step.level}, {reason}" if reason else step.level
