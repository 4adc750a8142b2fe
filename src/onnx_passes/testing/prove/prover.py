"""Prove a rule: for each model of its family, that what it computes before and after is the same for all inputs.

Why that is enough. The engine quantifies over the *values* of inputs: it computes with terms, not with numbers, so that
each proof holds for all of them. What is left are shapes, attributes, types and constants, over which the family
ranges:

* A rule that moves data does so by index maps that are affine in the sizes of each axis, piece by piece, and decides
  by comparing sizes with 0, with 1 and with each other. So two sizes above 1, one of 1 and one of 0, in all orders,
  show every way in which it can behave: what holds for them holds for others (small scope).
* A rule that computes element by element treats all elements alike, by parametricity in the index.
* A rule that sums treats the terms of all sums alike; two and three of them tell a sum from a product, from a mean and
  from its own terms.
* Types and ranks are those of the family, and no others: a certificate names them.
* Constants are drawn from those on which rules decide (0, 1, -1, a half, limits, infinities, NaN) and from general
  ones. A rule that decides by more than such comparisons has conditions of its own, which the family passes through.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import onnx_ir as ir

from onnx_passes.proofs.excuses import ROUNDING
from onnx_passes.proofs.proof import Assumption, Proof, Unproved
from onnx_passes.proofs.rule_certificate import REALS, Domain
from onnx_passes.testing.fuzz.targets import Target
from onnx_passes.testing.prove.coverage import domain_of, extent_of_instance, why_thin
from onnx_passes.testing.prove.engine import Promise, runs
from onnx_passes.testing.prove.family import Effort, Instance, family_of

Engine = Callable[[ir.Model, ir.Model, Promise], Proof | Unproved]
"""Proves that two models compute what is promised."""

_RELAXED = ROUNDING | {"nsz"}
"""What a tolerance allows without a flag."""
_TIMES = re.compile(r" after [\d.]+ s")
"""How long the solver took is no part of what is known."""
_MOST_FAILURES = 3
"""After so many models that were not proved no further ones are tried."""
_ESSENTIAL = frozenset({"float", "int64", "int32", "bool"})
"""A rule that takes one of these is not proved without it."""


@dataclass(frozen=True)
class Failure:
    """A model that was not proved, and why."""

    instance: Instance
    why: Unproved


@dataclass
class Verdict:
    """What came of a rule; ``missing`` is empty where it is proved."""

    target: Target
    proved: list[Instance] = field(default_factory=list[Instance])
    methods: Counter[str] = field(default_factory=Counter[str])
    flags: set[str] = field(default_factory=set[str])
    assumed: set[Assumption] = field(default_factory=set[Assumption])
    failures: list[Failure] = field(default_factory=list[Failure])
    domain: Domain = field(default_factory=Domain)
    missing: str = ""
    seconds: float = 0.0

    @property
    def is_proved(self) -> bool:
        """Tell whether the rule is proved."""
        return not self.missing

    @property
    def method(self) -> str:
        """Name the methods, the most frequent one first."""
        names = [name for name, _ in sorted(self.methods.items(), key=lambda each: (-each[1], each[0]))]
        return ", ".join([REALS, *names] if self.over_reals else names)

    @property
    def over_reals(self) -> bool:
        """Tell whether the rule is held to real numbers, as its pass promises a tolerance."""
        return self.target.limits is not None


def prove(target: Target, engine: Engine, *, effort: Effort | None = None, budget: float = 30.0) -> Verdict:
    """Prove a rule, or say what is missing; ``budget`` are the seconds that it may take."""
    started = time.process_time()
    verdict = Verdict(target)
    promise = Promise(not verdict.over_reals, target.fast_math)
    for instance in family_of(target, effort):
        answer = engine(instance.before, instance.after, promise)
        if isinstance(answer, Proof):
            verdict.proved.append(instance)
            verdict.methods[answer.method] += 1
            verdict.flags |= set(answer.flags)
            verdict.assumed |= set(answer.assumptions)
        elif runs(instance.before):
            verdict.failures.append(Failure(instance, answer))
        if len(verdict.failures) >= _MOST_FAILURES and not _restricted(verdict):
            break
        if time.process_time() - started > budget:
            verdict.missing = f"time: more than {budget:g} s"
            break
    _conclude(verdict)
    verdict.seconds = time.process_time() - started
    return verdict


def _conclude(verdict: Verdict) -> None:
    verdict.domain = domain_of(verdict.proved)
    undeclared = verdict.flags - verdict.target.fast_math - (_RELAXED if verdict.over_reals else frozenset())
    if undeclared:
        verdict.missing = f"needs {', '.join(sorted(undeclared))}, which its pass does not declare"
        return
    if verdict.failures:
        left = _restricted(verdict)
        if not left:
            verdict.missing = _reason(verdict)
            return
        verdict.proved = left
        verdict.domain = domain_of(left)
    verdict.missing = verdict.missing or why_thin(verdict.proved, verdict.domain)


def _restricted(verdict: Verdict) -> list[Instance]:
    """Leave out types for which nothing was proved, if that leaves no failure: the domain is that much smaller."""
    if any(failure.why.refuted for failure in verdict.failures):
        return []
    good = {name for instance in verdict.proved for name in extent_of_instance(instance).types}
    out: set[str] = set()
    for failure in verdict.failures:
        bad = extent_of_instance(failure.instance).types - good
        if not bad or bad & _ESSENTIAL:
            return []
        out |= bad
    return verdict.proved


def _reason(verdict: Verdict) -> str:
    refuted = next((failure for failure in verdict.failures if failure.why.refuted), None)
    if refuted is not None:
        return f"refuted: {refuted.why.reason}"
    reasons = Counter(_TIMES.sub("", failure.why.reason) for failure in verdict.failures)
    return reasons.most_common(1)[0][0]
