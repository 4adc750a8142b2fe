"""Verdicts on claims about two models, with evidence on two axes: the property that is preserved, and the method.

Runs, ``verify``, ``bisect``, ``reduce``, ``certify`` and sessions ask here. Fuzzing asks here about graphs that no data
reach, and compares values by a stricter rule of its own. Results of ordinary samples are compared first, with the
interface; then the declarations of models, graphs inside them that no sample reaches, and NaN, infinities and the
largest numbers as far as the claim covers them. A difference beyond a tolerance is accepted only for a reason that is
shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from onnx_passes.check.baseline import REST, Baseline, ClaimViolation
from onnx_passes.check.blame.diagnosis import Replay, first_divergence
from onnx_passes.check.blame.excuse import Excuse, Excuses, Taken
from onnx_passes.check.original import PAIR, BeyondMemoryError, Original
from onnx_passes.check.settings import Settings
from onnx_passes.core.claims import Claim
from onnx_passes.core.display import Displayed
from onnx_passes.core.errors import ModelError
from onnx_passes.core.evidence import (
    FAILED,
    KNOWN,
    SEMANTICS,
    STEP,
    UNVERIFIED,
    Evidence,
    Finding,
    RewriteProof,
    StepEvidence,
    findings_in,
    level_of,
)
from onnx_passes.core.plan import Plan
from onnx_passes.graph.randomness import draws_in
from onnx_passes.graph.wording import count
from onnx_passes.proofs.proof import Proof, Unproved
from onnx_passes.verify.comparison.compare import Comparison, compare
from onnx_passes.verify.comparison.declarations import ChangesInterface
from onnx_passes.verify.comparison.evidence import Promise, evidence_of
from onnx_passes.verify.run.execute import ExecutionError, Executor, MemoryLimitError, Sample

if TYPE_CHECKING:
    from onnx_passes.proofs.model_certificate import ModelCertificate


@dataclass(frozen=True)
class Verdict(Displayed):
    """The answer to a claim about two models: its evidence, or its violation.

    ``results`` are comparisons of ordinary samples, one each; ``accepted`` is the reason for a difference beyond a
    tolerance. ``proofs`` are of the models as they are.
    """

    evidence: Evidence
    violation: ClaimViolation | None = None
    accepted: Excuse | None = None
    results: tuple[Comparison, ...] = ()
    outputs: tuple[Sample, ...] = ()
    divergence: str = ""
    proofs: tuple[RewriteProof, ...] = ()

    @property
    def level(self) -> str:
        """Return the findings as text, or ``failed`` or ``unverified``, which no proof outweighs."""
        return level_of([StepEvidence(self.evidence, self.proofs, 0, modified=True)])

    @property
    def holds(self) -> bool:
        """Return whether the claim is known to hold."""
        return self.level not in (FAILED, UNVERIFIED)

    @property
    def is_violated(self) -> bool:
        """Return whether the claim is known not to hold."""
        return self.level == FAILED

    @property
    def equal(self) -> bool:
        """Return whether all results are equal bit by bit."""
        return self.holds and any(finding.preserved == "bits" for finding in findings_in(self.evidence.level))

    @property
    def verdict(self) -> str:
        """Return the verdict in a few words."""
        if self.level == UNVERIFIED:
            return "not verified"
        return "equal bit by bit" if self.equal else "within tolerance" if self.holds else "different"

    @property
    def engine(self) -> str:
        """Return the name of the engine that ran both models."""
        return self.evidence.engine

    def within(self, atol: float, rtol: float) -> bool:
        """Return whether all results of ordinary samples are within a tolerance."""
        return bool(self.results) and all(result.within(atol, rtol) for result in self.results)

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self) -> str:
        """Describe the differences, the first value that differs, and the verdict."""
        lines = [result.describe() for result in self.results if result.first is not None]
        if self.violation is not None and self.violation.difference not in "\n".join(lines):
            lines.append(self.violation.difference)
        if self.divergence:
            lines.append(f"first divergence: {self.divergence}")
        if not self.results:
            return "\n".join([*lines, f"{self.verdict}{': ' * bool(self.evidence.reason)}{self.evidence.reason}"])
        lines.append(f"{self.verdict} on {count(len(self.results), 'sample')} ({self.evidence.engine})")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "level": self.level,
            "equal": self.equal,
            "samples": len(self.results),
            "engine": self.evidence.engine,
            "differences": [result.describe() for result in self.results if result.first is not None],
            "first_divergence": self.divergence,
            **({"violation": self.violation.difference} if self.violation is not None else {}),
            **({"reason": self.evidence.reason} if self.evidence.reason else {}),
        }


def check(claim: Claim | Promise, old: ir.Model, new: ir.Model, settings: Settings | None = None) -> Verdict:
    """Return the verdict on a claim about an original and a transformed model."""
    settings = settings or Settings()
    try:
        original = Original(old, settings)
    except BeyondMemoryError as error:
        return Verdict(Evidence(UNVERIFIED, str(claim), reason=str(error)))
    return check_against(original, claim, new, settings)


def check_with_proofs(
    claim: Claim | Promise,
    old: ir.Model,
    new: ir.Model,
    certificate: ModelCertificate,
    settings: Settings | None = None,
) -> Verdict:
    """Return the verdict on a claim about two models, together with the proofs of their certificate.

    What is proved still has to run: a proof is no evidence about models that differ, or that do not run.
    """
    promise = claim if isinstance(claim, Promise) else Promise.of(claim, (settings or Settings()).limits)
    verdict = replace(check(promise, old, new, settings), proofs=(_proof_of(certificate),))
    if not certificate.is_refuted or not verdict.holds:
        return verdict
    wrong = next(window for window in certificate.windows if window.level == "refuted")
    told = f"{wrong.output}: {wrong.result.reason}" if isinstance(wrong.result, Unproved) else wrong.output
    if promise.is_equality and not promise.ignores:
        return _failed(promise, ClaimViolation(told, f"{wrong.output} not as expected", REST))
    # Nothing is promised about such inputs, but their bits differ.
    weaker = replace(verdict.evidence, level=str(Finding("tolerance", "sampled")), reason=told)
    return replace(verdict, evidence=weaker)


def _proof_of(certificate: ModelCertificate) -> RewriteProof:
    """Return the weakest proof of all windows as the proof of the models."""
    proofs = [window.result for window in certificate.windows]
    open_ = next((result for result in proofs if not isinstance(result, Proof)), None)
    if isinstance(open_, Unproved):
        return RewriteProof(STEP, "certificate", reason=open_.reason)
    found = [proof for proof in proofs if isinstance(proof, Proof)]
    preserved = tuple(name for name in SEMANTICS if all(name in proof.preserves for proof in found))
    known = max((proof.known for proof in found), key=KNOWN.index, default=KNOWN[1])
    methods = ", ".join(dict.fromkeys(proof.method for proof in found)) or "the models are the same"
    facts = tuple(dict.fromkeys(fact for proof in found for fact in proof.facts))
    return RewriteProof(STEP, "certificate", preserved, known, methods, facts)


def check_against(
    original: Original,
    claim: Claim | Promise,
    new: ir.Model,
    settings: Settings,
    taken: Sequence[Taken] = (),
    replay: Replay | None = None,
    changes: Sequence[tuple[ir.Model, ChangesInterface]] = (),
) -> Verdict:
    """Return the verdict on a model that ``taken`` steps made of an original one; of a pair, no steps are known.

    ``changes`` are the passes among them that changed the interface, each with the model before it. Raises UsageError
    if the samples cannot follow.
    """
    promise = claim if isinstance(claim, Promise) else Promise.of(claim, settings.limits)
    baseline = original.baseline_for(new)
    if baseline is None:
        return Verdict(Evidence(UNVERIFIED, str(promise.claim), reason=original.obstacle))
    for number, (before, change) in enumerate(changes):
        baseline.look_inside(change, before, settings.executor)
        baseline.follow(change, new, number)
    replay = replay or Replay(Plan((), ""), original.source)
    excuses = Excuses(baseline, replay, settings.executor, settings.limits, taken, 0)
    try:
        verdict = judge(baseline, new, promise, settings.executor, excuses, original.source)
    except BeyondMemoryError as error:
        reason = f"the original fits in memory, the other model does not: {error}"
        return Verdict(Evidence(UNVERIFIED, str(promise.claim), reason=reason))
    bodies = () if baseline.unreached is None else baseline.unreached.evidence(PAIR)
    unchecked = next((body for body in bodies if body.how == "unchecked"), None)
    if unchecked is not None and verdict.holds:
        reason = f"{unchecked.name} is not checked: {unchecked.reason}"
        verdict = replace(verdict, evidence=Evidence(UNVERIFIED, reason=reason, bodies=bodies))
    wrong = next((number for number, result in enumerate(verdict.results) if not result.equal), None)
    if wrong is None or baseline.changes:
        return verdict
    sample = baseline.samples[wrong]
    divergence = first_divergence(original.source(), new, sample, settings.executor, baseline.engine)
    return replace(verdict, divergence=divergence)


def judge(
    baseline: Baseline,
    model: ir.Model,
    promise: Promise,
    executor: Executor,
    excuses: Excuses | str,
    source: Callable[[], ir.Model],
) -> Verdict:
    """Return the verdict on a model by a baseline; ``excuses`` may accept differences, or a text says why none may.

    ``source`` returns the original model, which is run again if it draws random numbers and results differ.
    Raises BeyondMemoryError if the model does not fit in memory, where the original one hardly did.
    """
    started = time.perf_counter()
    try:
        results = baseline.run(executor, model)
    except (ExecutionError, ModelError) as error:
        if isinstance(error, MemoryLimitError) and baseline.is_large:
            raise BeyondMemoryError(str(error)) from error
        return _failed(promise, ClaimViolation(told := f"the model no longer runs: {error}", told))
    violation = baseline.violation(model, results, promise)
    accepted: Excuse | None = None
    if violation is not None:
        found = excuses if isinstance(excuses, str) else excuses.find(model, results, promise)
        advice = ""
        if isinstance(found, Excuse) and baseline.expected is not None and not isinstance(excuses, str):
            # Who says what to expect gets that, or the reason; a tolerance for what rounding does not explain would let
            # a wrong rewrite pass.
            advice = baseline.advice(results, promise) if found.ties is None else ""
            found = excuses.refused(found)
        if isinstance(found, str) and not _repeats(baseline, source(), executor):
            reason = "the original model draws random numbers, and does not compute the same twice"
            return Verdict(Evidence(UNVERIFIED, str(promise.claim), reason=reason))
        if isinstance(found, str):
            violation = replace(violation, no_excuse=found, advice=advice)
            return _failed(promise, violation, _comparisons(baseline, results, promise), results)
        # Ties are a reason for what samples show, and for nothing else.
        if found.ties is not None and (rest := baseline.violation_of_rest(model, promise)):
            return _failed(promise, ClaimViolation(rest, "the model is not as expected", REST), (), results)
        accepted = replace(found, reason=f"{violation.difference}; {found.reason}")
    comparisons = _comparisons(baseline, results, promise)
    others = [] if baseline.unreached is None else baseline.unreached.inexact
    specials_equal = baseline.specials is None or baseline.specials.equal
    seen, count_of = [*comparisons, *others], len(baseline.samples)
    evidence = evidence_of(promise, seen, count_of, baseline.engine, started, others_equal=specials_equal)
    ties = baseline.ties if accepted is None or accepted.ties is None else accepted.ties
    if ties is not None and not promise.is_equality:
        evidence = replace(evidence, level=str(Finding("tolerance", "sampled")), reason=str(ties))
    return Verdict(evidence, None, accepted, comparisons, tuple(results))


def _repeats(baseline: Baseline, original: ir.Model, executor: Executor) -> bool:
    """Return whether the original model computes the same again, as all do that draw no random numbers."""
    if not draws_in(original) or baseline.changes:
        return True
    again = executor.prepare(original, engine=baseline.engine, feeds=baseline.feeds)
    found = [again.run(sample) for sample in baseline.given]
    return all(compare(old, new).equal for old, new in zip(baseline.original, found, strict=True))


def _comparisons(baseline: Baseline, results: Sequence[Sample], promise: Promise) -> tuple[Comparison, ...]:
    reference = baseline.current if promise.is_equality else baseline.original
    return tuple(compare(old, new) for old, new in zip(reference, results, strict=True))


def _failed(
    promise: Promise,
    violation: ClaimViolation,
    comparisons: tuple[Comparison, ...] = (),
    results: Sequence[Sample] = (),
) -> Verdict:
    evidence = Evidence(FAILED, str(promise.claim), reason=violation.difference)
    return Verdict(evidence, violation, None, comparisons, tuple(results))
