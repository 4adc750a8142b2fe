"""Evidence on two axes: the preserved semantics, and the kind of proof or test that shows it.

Rewrites follow one another, so evidence is composed along a run. Semantics that every rewrite preserves are preserved
by the run: floats bit by bit, quantization levels of exact arithmetic, or real numbers. Exact arithmetic may follow
floats, since the floats are then those of the original. Floats must not follow exact arithmetic: a rewrite that keeps
the floats of a model which is equal to the original in real numbers only keeps its rounding errors, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

PRESERVED = ("bits", "levels", "reals", "tolerance", "metric")
"""What may be preserved, the strongest first.

All bits of all outputs; the quantization levels of exact arithmetic; the real function, of which floats are a rounding;
results within a tolerance of those of the original model; the metrics of the task.
"""
SEMANTICS = PRESERVED[:3]
"""What a proof may be about."""
KNOWN = ("proved", "proved-here", "tested", "sampled")
"""How that may be known, the strongest first.

By a proof of the rule for its whole domain; by a proof of this application for all inputs; by tests of the changed
fragments on drawn values; by running the whole model on samples.
"""
UNCHANGED = "unchanged"
UNVERIFIED = "unverified"
FAILED = "failed"
STEP = 0
"""The application number of a proof about a whole step."""


@dataclass(frozen=True)
class Finding:
    """Preserved semantics, and the kind of proof or test that shows it."""

    preserved: str
    known: str

    def __str__(self) -> str:
        return f"{self.preserved}:{self.known}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the finding that ``str`` wrote. Raises ValueError for any other text."""
        preserved, _, known = text.partition(":")
        if preserved not in PRESERVED or known not in KNOWN:
            raise ValueError(f"'{text}' is not a finding")
        return cls(preserved, known)

    @property
    def is_proof(self) -> bool:
        """Return whether it holds for every input."""
        return self.known in KNOWN[:2]

    @property
    def rank(self) -> tuple[int, int]:
        """Return its place on both axes, the strongest first."""
        return PRESERVED.index(self.preserved), KNOWN.index(self.known)

    def covers(self, other: Finding) -> bool:
        """Return whether it is at least as strong as another finding, on both axes."""
        return all(mine <= yours for mine, yours in zip(self.rank, other.rank, strict=True))


@dataclass(frozen=True)
class BodyEvidence:
    """Evidence of a graph that a step changed inside a model: a branch, the body of a loop or a called function.

    ``how`` is ``reached`` if the samples of the run take it, ``alone`` if it ran ``runs`` times by itself on the values
    around it, ``drawn`` if these were drawn, and ``unchecked`` for a ``reason``.
    """

    name: str
    how: str
    runs: int = 0
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return plain data, without empty fields."""
        return {key: value for key, value in vars(self).items() if value}


@dataclass(frozen=True)
class Evidence:
    """Evidence of a step from running the model: the claim checked, number of samples and largest differences.

    ``level`` is the text of a finding, or one of ``unchanged``, ``unverified`` and ``failed``. ``bodies`` are the
    graphs inside the model that the step changed.
    """

    level: str
    claim: str = ""
    samples: int = 0
    windows: int = 0
    max_abs: float | None = None
    max_rel: float | None = None
    max_ulp: int | None = None
    engine: str = ""
    seconds: float = 0.0
    reason: str = ""
    bodies: tuple[BodyEvidence, ...] = ()

    @property
    def finding(self) -> Finding | None:
        """Return the finding; None if nothing changed or nothing could be checked."""
        return Finding.parse(self.level) if ":" in self.level else None

    def to_json(self) -> dict[str, Any]:
        """Return plain data, without empty fields."""
        data = {key: value for key, value in vars(self).items() if value not in (None, "", 0, ())}
        return data | ({"bodies": [body.to_json() for body in self.bodies]} if self.bodies else {})


@dataclass(frozen=True)
class RewriteProof:
    """Proof of one rewrite: its method and facts.

    ``preserves`` are the semantics in which old and new values are equal. It is empty if there is no proof, for a
    ``reason``.
    """

    application: int
    rule: str
    preserves: tuple[str, ...] = ()
    known: str = ""
    method: str = ""
    facts: tuple[str, ...] = ()
    bound: float | None = None
    reason: str = ""

    @property
    def is_proof(self) -> bool:
        """Return whether it holds for every input."""
        return self.known in KNOWN[:2]

    @property
    def keeps_bits(self) -> bool:
        """Return whether all bits are equal for every input."""
        return self.is_proof and SEMANTICS[0] in self.preserves

    @property
    def level(self) -> str:
        """Return the strongest finding as text, or an empty string if the rewrite is not proved."""
        strongest = min(self.preserves, key=PRESERVED.index, default="")
        return f"{strongest}:{self.known}" if strongest else ""

    @property
    def text(self) -> str:
        """Return a one-line description."""
        if not self.preserves:
            return f"not proved: {self.reason}"
        bound = () if self.bound is None else (f"at most {self.bound:.2g} off",)
        return f"{self.level} ({'; '.join((self.method, *self.facts, *bound))})"


@dataclass(frozen=True)
class StepEvidence:
    """Evidence of a step: from running it, and from proofs of its rewrites; ``rewrites`` is their number."""

    shown: Evidence | None
    proofs: Sequence[RewriteProof]
    rewrites: int
    modified: bool

    @property
    def status(self) -> str:
        """Return the status that overrides all proofs, if the step failed, did not run or changed nothing."""
        if self.shown is None:
            return UNVERIFIED if self.modified else UNCHANGED
        return self.shown.level if self.shown.finding is None else ""

    @property
    def is_known(self) -> bool:
        """Return whether each rewrite has evidence of its own."""
        complete = len(self.proofs) == self.rewrites or any(proof.application == STEP for proof in self.proofs)
        return bool(self.proofs) and complete and all(proof.preserves for proof in self.proofs)

    @property
    def is_proved(self) -> bool:
        """Return whether each of its rewrites is proved for every input."""
        return self.is_known and all(proof.is_proof for proof in self.proofs)

    @property
    def keeps_bits(self) -> bool:
        """Return whether each of its rewrites is proved to keep all bits, for every input."""
        return self.is_known and all(proof.keeps_bits for proof in self.proofs)


def level_of(steps: Iterable[StepEvidence]) -> str:
    """Return the level of steps that follow one another: their strongest findings as text, or a status."""
    steps = list(steps)
    statuses = {step.status for step in steps}
    for status in (FAILED, UNVERIFIED):
        if status in statuses:
            return status
    changed = [step for step in steps if step.status != UNCHANGED]
    return ", ".join(map(str, _findings(changed))) if changed else UNCHANGED


def findings_in(level: str) -> tuple[Finding, ...]:
    """Return the findings that a level lists."""
    return tuple(map(Finding.parse, level.split(", "))) if ":" in level else ()


def reaches(level: str, wanted: Finding) -> bool:
    """Return whether a level is at least as strong as a finding."""
    return level == UNCHANGED or any(finding.covers(wanted) for finding in findings_in(level))


def is_weaker(level: str, other: str) -> bool:
    """Return whether a level lacks a finding that another one has."""
    if level in (other, UNCHANGED):
        return False
    return other == UNCHANGED or any(not reaches(level, finding) for finding in findings_in(other))


def _findings(steps: Sequence[StepEvidence]) -> list[Finding]:
    """Compose the evidence of steps; drop findings that another one covers."""
    kept: Mapping[str, int] = dict.fromkeys(SEMANTICS, 0)
    for step in steps:
        kept = _after(kept, step)
    found = {Finding(semantics, KNOWN[known]) for semantics, known in kept.items()}
    shown = [step.shown.finding for step in steps if step.shown is not None and step.shown.finding is not None]
    worst = [max((finding.rank[axis] for finding in shown), default=0) for axis in (0, 1)]
    found.add(Finding(PRESERVED[worst[0]], KNOWN[worst[1]]))
    strongest = [each for each in found if not any(other != each and other.covers(each) for other in found)]
    return sorted(strongest, key=lambda finding: finding.rank)


def _after(kept: Mapping[str, int], step: StepEvidence) -> Mapping[str, int]:
    """Return the semantics that are preserved up to and including a step, with the index of each in ``KNOWN``."""
    ways: list[Mapping[str, int]] = []
    if step.is_known:
        proved = kept
        for proof in sorted(step.proofs, key=lambda proof: proof.application):
            proved = _composed(proved, proof.preserves, KNOWN.index(proof.known))
        ways.append(proved)
    shown = None if step.shown is None else step.shown.finding
    if shown is not None and shown.preserved == "bits":
        ways.append(_composed(kept, ("bits",), KNOWN.index(shown.known)))
    return {name: min(way[name] for way in ways if name in way) for name in SEMANTICS if any(name in w for w in ways)}


def composed(kept: Collection[str], preserves: Collection[str]) -> Collection[str]:
    """Return the semantics that a rewrite preserves together with the rewrites before it."""
    return [name for name in preserves if name in kept or "bits" in kept]


def _composed(kept: Mapping[str, int], preserves: Collection[str], known: int) -> Mapping[str, int]:
    return {
        name: max(known, min(kept[each] for each in (name, "bits") if each in kept))
        for name in composed(kept, preserves)
    }


def grouped(proofs: Iterable[RewriteProof]) -> list[dict[str, Any]]:
    """Return plain data in which rewrites with the same proof are listed together."""
    groups: dict[RewriteProof, list[int]] = {}
    for proof in proofs:
        key = RewriteProof(
            0, proof.rule, proof.preserves, proof.known, proof.method, proof.facts, proof.bound, proof.reason
        )
        groups.setdefault(key, []).append(proof.application)
    return [
        {
            **({"level": key.level} if key.level else {}),
            **{
                name: value
                for name, value in vars(key).items()
                if name != "application" and value not in (None, "", ())
            },
            "applications": numbers,
        }
        for key, numbers in groups.items()
    ]
