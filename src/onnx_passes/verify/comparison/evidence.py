"""Evidence of comparisons and runs: how well results are known, what users require, and the step that prevents it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np

from onnx_passes.core.errors import UsageError, did_you_mean
from onnx_passes.core.evidence import (
    FAILED,
    KNOWN,
    PRESERVED,
    STEP,
    UNCHANGED,
    UNVERIFIED,
    Evidence,
    Finding,
    level_of,
    reaches,
)
from onnx_passes.core.records import RunRecord, StepRecord
from onnx_passes.verify.comparison.compare import Comparison
from onnx_passes.verify.comparison.promise import Promise


def says_nothing(results: Sequence[Mapping[str, np.ndarray]]) -> str:
    """Name outputs that are the same float everywhere in all samples, whatever is computed on the way to them."""
    found: list[str] = []
    for name in results[0] if results else ():
        arrays = [result[name] for result in results if isinstance(result.get(name), np.ndarray)]
        floats = [array.reshape(-1) for array in arrays if array.dtype.kind == "f"]
        elements = np.concatenate(floats) if floats else np.zeros(0)
        if elements.size > 1 and np.array_equal(elements, np.broadcast_to(elements[0], elements.shape), equal_nan=True):
            found.append(f"'{name}' is {elements[0]:g}")
    return f"{' and '.join(found)} in all samples, which shows little: give data with --inputs" if found else ""


def evidence_of(
    promise: Promise,
    comparisons: Sequence[Comparison],
    samples: int,
    engine: str,
    started: float,
    windows: int = 0,
    *,
    others_equal: bool = True,
) -> Evidence:
    """Sum up how results compare on samples, or in windows of the model; what is not equal is no more than promised.

    ``others_equal`` is False if other samples, about which nothing is promised, show that bits differ.
    """
    equal = others_equal and all(comparison.equal for comparison in comparisons)
    return Evidence(
        level=str(Finding("bits" if equal else "metric" if promise.claim.kind == "metric" else "tolerance", "sampled")),
        claim=str(promise.claim),
        samples=samples,
        windows=windows,
        max_abs=max((comparison.max_abs or 0.0 for comparison in comparisons), default=0.0),
        max_rel=max((comparison.max_rel or 0.0 for comparison in comparisons), default=0.0),
        max_ulp=max((comparison.max_ulp or 0 for comparison in comparisons), default=0),
        engine=engine,
        seconds=time.perf_counter() - started,
    )


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
