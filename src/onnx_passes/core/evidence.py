"""The ladder of evidence, from proof down to nothing: what runs showed of steps, and what is proved of rewrites."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

LADDER = ("proved", "proved-here", "equal-in-reals", "tested", "sampled", "tolerance", "metric", "unverified")
"""Levels of evidence, the strongest first."""
PROOFS = LADDER[:3]
"""Those that hold for every input."""
UNCHANGED = "unchanged"
"""The level of what changed nothing: above all others."""
FAILED = "failed"
STEP = 0
"""The number of what is proved of a step as a whole, not of one of its rewrites."""


@dataclass(frozen=True)
class Evidence:
    """What running the model showed of a step: by which check, on how many samples, how close."""

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

    def to_json(self) -> dict[str, Any]:
        """Return plain data, without what is empty."""
        return {key: value for key, value in vars(self).items() if value not in (None, "", 0)}


@dataclass(frozen=True)
class RewriteProof:
    """What is proved of one rewrite, by which method and from which facts; without a level, the reason why nothing."""

    application: int
    rule: str
    level: str = ""
    method: str = ""
    facts: tuple[str, ...] = ()
    bound: float | None = None
    reason: str = ""

    @property
    def text(self) -> str:
        """Say it in one line."""
        if not self.level:
            return f"not proved: {self.reason}"
        bound = () if self.bound is None else (f"at most {self.bound:.2g} off",)
        return f"{self.level} ({'; '.join((self.method, *self.facts, *bound))})"


def rank(level: str) -> int:
    """Return the place of a level on the ladder: the less, the stronger."""
    return LADDER.index(level) if level in LADDER else -1 if level == UNCHANGED else len(LADDER)


def weakest(levels: Iterable[str]) -> str:
    """Return the weakest of some levels; ``unchanged`` if there are none."""
    return max(levels, key=rank, default=UNCHANGED)


def combined(evidence: Evidence | None, proofs: Sequence[RewriteProof], rewrites: int, *, modified: bool) -> str:
    """Return the level of a step: the weakest proof if all of its rewrites have one, else what runs showed of it.

    A run that failed is not outweighed by any proof.
    """
    shown = evidence.level if evidence is not None else "unverified" if modified else UNCHANGED
    complete = len(proofs) == rewrites or any(proof.application == STEP for proof in proofs)
    if shown == FAILED or not proofs or not complete or not all(proof.level for proof in proofs):
        return shown
    return min(shown, weakest(proof.level for proof in proofs), key=rank)


def grouped(proofs: Iterable[RewriteProof]) -> list[dict[str, Any]]:
    """Return plain data, in which rewrites of which the same is known are listed together."""
    groups: dict[RewriteProof, list[int]] = {}
    for proof in proofs:
        key = RewriteProof(0, proof.rule, proof.level, proof.method, proof.facts, proof.bound, proof.reason)
        groups.setdefault(key, []).append(proof.application)
    return [
        {
            **{
                name: value
                for name, value in vars(key).items()
                if name != "application" and value not in (None, "", ())
            },
            "applications": numbers,
        }
        for key, numbers in groups.items()
    ]
