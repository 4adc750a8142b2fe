"""Evidence of comparisons and runs, what users require of it, and the claims about results that it is held against."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from onnx_passes.core.base import Pass
from onnx_passes.core.claims import Claim
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
from onnx_passes.verify.comparison.compare import Comparison, TensorComparison, TensorStatus
from onnx_passes.verify.comparison.ulp import Array, Kind, chunks, kind_of


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


def share_of_bound(
    expected: Array, found: Array, atol: float, rtol: float, rounding: Array | float = 0.0
) -> NDArray[np.float64]:
    """Return ``|found - expected| / (atol + rtol * |expected| + rounding)`` for every element.

    It is infinite where no bound helps: NaN or an infinity against anything else, booleans and strings that differ,
    any difference where the bound is zero. Arrays must be of one type and shape.
    """
    shares, more = np.empty(expected.size), np.broadcast_to(rounding, expected.shape).reshape(-1)
    # In chunks: allocating large temporary arrays costs more than the arithmetic.
    for start, a, b in chunks(expected, found):
        part = slice(start, start + a.size)
        shares[part] = _shares(a, b, atol, rtol, more[part])
    return shares.reshape(expected.shape)


def _shares(expected: Array, found: Array, atol: float, rtol: float, rounding: Array) -> NDArray[np.float64]:
    kind = kind_of(expected.dtype)
    if kind is Kind.STRING or kind is Kind.BOOL:
        return np.where(expected == found, 0.0, np.inf)
    wide = np.complex128 if kind is Kind.COMPLEX else np.float64
    a, b = expected.astype(wide), found.astype(wide)
    with np.errstate(all="ignore"):
        distance = np.abs(b - a)
        share = distance / (atol + rtol * np.abs(a) + rounding)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    # Where a number is NaN or infinite, so is its distance, and no bound makes the share finite.
    return np.where(same, 0.0, np.where(np.isfinite(share), share, np.inf))


Rounding = Mapping[str, Array]
"""How far rounding may move the elements of tensors, by name."""
NONE: Rounding = {}

EXPLICIT = "verify"
"""The pass that asks for a check where it stands, whether or not anything changed."""


@dataclass(frozen=True)
class Limits:
    """How far results may be from those of the original model where a pass promises no equality.

    Where nobody said so much (``given``), types of less precision have wider limits: eight times what they resolve.
    """

    atol: float = 1e-5
    rtol: float = 1e-4
    given: bool = True

    def of(self, dtype: np.dtype[Any]) -> Limits:
        """Return the limits for results of an element type."""
        if self.given or kind_of(dtype) is not Kind.FLOAT:
            return self
        resolution = float(cast(Any, ml_dtypes.finfo(dtype)).eps)
        return Limits(max(self.atol, resolution), max(self.rtol, 8 * resolution))

    @property
    def pair(self) -> tuple[float, float] | None:
        """Return what somebody gave, absolute and relative."""
        return (self.atol, self.rtol) if self.given else None

    @classmethod
    def asked(cls, atol: float | None, rtol: float | None) -> Limits:
        """Return limits of which somebody gave any, or none."""
        if atol is None and rtol is None:
            return DEFAULT
        return cls(cls.atol if atol is None else atol, cls.rtol if rtol is None else rtol)

    @classmethod
    def widest(cls, limits: Sequence[Limits]) -> Limits:
        """Return limits that are as wide as all of some."""
        given = all(limit.given for limit in limits)
        return cls(max(limit.atol for limit in limits), max(limit.rtol for limit in limits), given)


DEFAULT = Limits(given=False)
"""The limits of a run for which nobody gave any."""


@dataclass(frozen=True)
class Promise:
    """What one step, or several together, promise about results: the weakest of their claims.

    ``ignores`` are the flags of what they do not promise anything about, ``unit`` is the last place of the type that
    results are computed in, where that is another one than before.
    """

    claim: Claim
    limits: Limits | None
    ignores: frozenset[str] = frozenset()
    unit: float = 0.0

    @classmethod
    def of(cls, claim: Claim, limits: Limits = DEFAULT) -> Promise:
        """Return what a single claim promises; ``limits`` are those of a tolerance that names none."""
        if claim.kind == "equality":
            return cls(claim, None)
        return cls(claim, limits_of(claim, limits), unit=float(str(claim.parameters.get("unit", 0))))

    @property
    def is_equality(self) -> bool:
        """Return whether results must stay as they were."""
        return self.claim.kind == "equality"

    def in_type(self, unit: float) -> Promise:
        """Return a tolerance as wide as results need that are computed in a shorter type, if nobody gave another."""
        if self.claim.kind != "tolerance" or self.limits is None or unit <= self.unit:
            return self
        limits = self.limits
        if not limits.given:
            limits = replace(limits, atol=max(limits.atol, unit), rtol=max(limits.rtol, 8 * unit))
        return replace(self, limits=limits, unit=unit)

    def holds(self, comparison: Comparison, rounding: Rounding = NONE) -> bool:
        """Return whether results are as promised; a metric promises no more than the interface.

        A tolerance is wider by what ``rounding`` may do to the elements of a tensor, equality is not.
        """
        return self.broken(comparison, rounding) is None

    def broken(self, comparison: Comparison, rounding: Rounding = NONE) -> TensorComparison | None:
        """Return the first tensor that is not as promised."""
        return next((t for t in comparison.tensors if not self._holds(t, rounding.get(t.name, 0.0))), None)

    def share(self, comparison: Comparison, rounding: Rounding = NONE) -> float:
        """Return which part of the tolerance the values use up, more than 1 where they are not as promised."""
        if self.limits is None or comparison.equal:
            return 0.0 if comparison.equal else math.inf
        shares = [self._shares(t, rounding.get(t.name, 0.0)) for t in comparison.tensors if not t.equal]
        return max(float(share.max(initial=0.0)) for share in shares)

    def describe(self, tensor: TensorComparison, rounding: Rounding = NONE) -> str:
        """Say what is wrong with a tensor, by the element that is furthest beyond what is allowed."""
        if self.limits is None or tensor.arrays is None or self.is_equality:
            return tensor.message()
        shares = self._shares(tensor, rounding.get(tensor.name, 0.0))
        at = np.unravel_index(int(shares.argmax()), shares.shape)
        return tensor.message(tuple(int(i) for i in at), beyond=int((shares > 1).sum()))

    def part(self, share: float) -> Promise:
        """Return a promise of which a part is used up already."""
        if self.limits is None:
            return self
        left = max(1.0 - share, 0.0)
        return replace(self, limits=replace(self.limits, atol=self.limits.atol * left, rtol=self.limits.rtol * left))

    def _holds(self, tensor: TensorComparison, rounding: Array | float) -> bool:
        if tensor.equal:
            return True
        if self.claim.kind == "metric":
            return tensor.status is TensorStatus.VALUES
        if self.limits is None or tensor.status is not TensorStatus.VALUES or tensor.arrays is None:
            return False
        if isinstance(rounding, float):
            limits = self.limits.of(tensor.arrays[0].dtype)
            return tensor.within(limits.atol, limits.rtol)
        return bool((self._shares(tensor, rounding) <= 1).all())

    def _shares(self, tensor: TensorComparison, rounding: Array | float) -> Array:
        assert self.limits is not None
        if tensor.arrays is None:
            return np.full(1, np.inf)
        limits = self.limits.of(tensor.arrays[0].dtype)
        if self.is_equality:
            rounding = 0.0
        return share_of_bound(*tensor.arrays, limits.atol, limits.rtol, rounding)


PromiseFor = Callable[[Pass | None], Promise]
"""What is promised by the owner of a rewrite, or by the pass of the step where it has none."""


def promise_of(passes: Iterable[Pass], limits: Limits) -> Promise:
    """Return the weakest promise of passes together; equality ignores signs of zeros under the flag ``nsz``."""
    passes = list(passes)
    ignored = frozenset(str(flag) for pass_ in passes for flag in pass_.fast_math)
    # Asking for a check promises nothing: what was promised since the last one is checked.
    passes = [pass_ for pass_ in passes if pass_.name != EXPLICIT] or passes
    claims = [claim_of(pass_) for pass_ in passes]
    for kind in ("metric", "tolerance"):
        weak = [claim for claim in claims if claim.kind == kind]
        if weak:
            unit = max(float(str(claim.parameters.get("unit", 0))) for claim in weak)
            return Promise(weak[0], Limits.widest([limits_of(claim, limits) for claim in weak]), ignored, unit)
    unsigned = any("nsz" in pass_.fast_math for pass_ in passes)
    return Promise(Claim("equality"), Limits(0, 0) if unsigned else None, ignored)


def claim_of(pass_: Pass) -> Claim:
    """Choose what is checked: what the pass promises, else what its kind implies."""
    if pass_.name == EXPLICIT:
        return Claim("tolerance")
    for claim in pass_.claims:
        if claim.kind != "structure":
            return claim
    return Claim("equality") if pass_.kind in ("analysis", "annotation") else Claim("tolerance")


def limits_of(claim: Claim, limits: Limits) -> Limits:
    """Return how far a claim lets results be, where it does not say so as far as ``limits`` do."""
    if claim.kind != "tolerance":
        return limits
    given = {key: float(str(value)) for key, value in claim.parameters.items() if key in ("atol", "rtol")}
    return replace(limits, **given)
