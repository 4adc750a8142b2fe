"""The ladder of evidence, from proof down to nothing; a run is as good as its weakest step."""

from __future__ import annotations

from onnx_passes.core.errors import UsageError, did_you_mean
from onnx_passes.core.records import RunRecord, StepRecord

LADDER = ("proved", "proved-here", "equal-in-reals", "tested", "sampled", "tolerance", "metric", "unverified")
"""Levels of evidence, the strongest first."""
_ABOVE_ALL = "unchanged"


def parse_level(text: str) -> str:
    """Read the name of a level that can be required."""
    known = LADDER[:-1]
    if text not in known:
        raise UsageError(f"there is no level of evidence '{text}'", hint=did_you_mean(text, known) or ", ".join(known))
    return text


def level_of(run: RunRecord) -> str:
    """Return the weakest level over the steps that changed the model; ``unchanged`` if none did."""
    return max((_level(step) for step in run.leaves()), key=rank, default=_ABOVE_ALL)


def below(run: RunRecord, level: str) -> list[StepRecord]:
    """List the steps whose evidence is weaker than a level."""
    return [step for step in run.leaves() if rank(_level(step)) > rank(level)]


def _level(step: StepRecord) -> str:
    if step.evidence is not None:
        return step.evidence.level
    return "unverified" if step.modified else _ABOVE_ALL


def rank(level: str) -> int:
    """Return the place of a level on the ladder: the less, the stronger."""
    return LADDER.index(level) if level in LADDER else -1 if level == _ABOVE_ALL else len(LADDER)
