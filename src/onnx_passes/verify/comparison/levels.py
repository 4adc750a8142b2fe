"""Evidence that users require, the evidence of a whole run, and the step that stands in the way."""

from __future__ import annotations

from onnx_passes.core.errors import UsageError, did_you_mean
from onnx_passes.core.evidence import (
    FAILED,
    KNOWN,
    PRESERVED,
    STEP,
    UNCHANGED,
    UNVERIFIED,
    Finding,
    level_of,
    reaches,
)
from onnx_passes.core.records import RunRecord, StepRecord

_SINGLE = {
    "proved": Finding("bits", "proved"),
    "proved-here": Finding("levels", "proved-here"),
    "equal-in-reals": Finding("reals", "proved-here"),
    "tested": Finding("bits", "tested"),
    "sampled": Finding("bits", "sampled"),
}
"""Words that name a finding by how it is known."""


def parse_level(text: str) -> Finding:
    """Read a required finding: ``bits``, ``levels:proved-here``, or one of the words of the earlier single ladder."""
    if text in _SINGLE:
        return _SINGLE[text]
    preserved, colon, known = text.partition(":")
    for word, words in ((preserved, PRESERVED), (known if colon else KNOWN[-1], KNOWN)):
        if word not in words:
            hint = did_you_mean(word, (*words, *(() if colon else _SINGLE)))
            raise UsageError(
                f"'{text}' is not a level of evidence",
                hint=hint or f"write WHAT or WHAT:HOW, WHAT one of {', '.join(PRESERVED)}, HOW of {', '.join(KNOWN)}",
            )
    return Finding(preserved, known or KNOWN[-1])


def level_of_run(run: RunRecord) -> str:
    """Return what a run preserves and how that is known; ``unchanged`` if no step changed the model."""
    return level_of(step.all_evidence for step in decisive_steps(run))


def decisive_steps(run: RunRecord) -> list[StepRecord]:
    """Return the steps that changed the model and those that could not be checked; all steps if there are none.

    A check between steps tells what it found about them; by itself it changes nothing.
    """
    steps = list(run.leaves())
    return [step for step in steps if step.modified or step.all_evidence.status in (UNVERIFIED, FAILED)] or steps


def obstacles(run: RunRecord, wanted: Finding) -> list[str]:
    """Name the steps whose evidence is weaker than a finding, or the step that does not compose with those before."""
    steps = decisive_steps(run)
    weak = [step for step in steps if not reaches(step.level, wanted)]
    if weak:
        return [f"{_named(step)}: {_why(step, wanted)}" for step in weak]
    for count, step in enumerate(steps, 1):
        level = level_of(each.all_evidence for each in steps[:count])
        if not reaches(level, wanted):
            return [f"{_named(step)}: {step.level} by itself, but together with the steps before it {level}"]
    return []


def _named(step: StepRecord) -> str:
    return f"{step.name} (step {step.number})"


def _why(step: StepRecord, wanted: Finding) -> str:
    """Return what is known of a step, with its first rewrite of which less is known than wanted."""
    if step.level in (UNVERIFIED, FAILED, UNCHANGED):
        reason = step.evidence.reason if step.evidence is not None else ""
        return f"{step.level}, {reason}" if reason else step.level
    weak = [proof for proof in step.proofs if not reaches(proof.level, wanted)]
    if wanted.is_proof and weak:
        if weak[-1].application == STEP:
            return f"{step.level}; {weak[-1].text}"
        rewrites = f"{len(weak)} of {step.applications} rewrites"
        return f"{step.level}; {rewrites}, first {weak[0].application}, '{weak[0].rule}': {weak[0].text}"
    reason = step.evidence.reason if step.evidence is not None else ""
    return f"{step.level}, {reason}" if reason else step.level
