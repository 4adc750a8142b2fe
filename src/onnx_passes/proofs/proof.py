"""Results of proving a rewrite: the level of a proof, its method, and its assumptions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from onnx_passes.core.evidence import SEMANTICS

ProofLevel = Literal["proved", "proved-here", "equal-in-reals", "tested"]
LEVELS: tuple[ProofLevel, ...] = ("proved", "proved-here", "equal-in-reals", "tested")
"""Levels of proofs, the strongest first."""


@dataclass(frozen=True, order=True)
class Assumption:
    """A statement that a proof needs and that nobody has proved; ``leaves`` is the level that is left because of it."""

    text: str
    leaves: ProofLevel = "tested"


@dataclass(frozen=True)
class Proof:
    """Two computations are known to be the same.

    ``proved`` says so for all inputs, shapes and types of a declared domain, bit by bit; ``proved-here`` for every
    input that can occur in this place, bit by bit or, where a fact says so, in the exact arithmetic that a quantized
    network means; ``equal-in-reals`` of real numbers, so that floats differ by rounding only, by at most ``bound``
    where that is known; ``tested`` that no difference was found, as for sizes that stand for others. ``facts`` are what
    the proof rests on, one sentence each: ``accumulator ≤ 2¹⁷ < 2²⁴``; ``assumptions`` are those among them that are
    not known to hold. ``holds`` is what is proved if they do; ``level``, what is known whether they do or not.
    ``flags`` are those of fast math without which bits may differ. ``semantics`` are those in which both are the same,
    all that the level implies unless a method says less. ``is_of_rule`` is set if it holds for all that a rule matches.
    """

    holds: ProofLevel
    method: str
    facts: tuple[str, ...] = ()
    bound: float | None = None
    flags: tuple[str, ...] = ()
    assumptions: tuple[Assumption, ...] = ()
    semantics: tuple[str, ...] = ()
    is_of_rule: bool = False

    def __post_init__(self) -> None:
        """List assumptions among the facts."""
        more = (each.text for each in self.assumptions if each.text not in self.facts)
        object.__setattr__(self, "facts", (*self.facts, *more))

    @property
    def level(self) -> ProofLevel:
        """Return the weaker of the proved level and the level that the assumptions leave."""
        return weakest(self.holds, self.assumptions)

    @property
    def keeps_bits(self) -> bool:
        """Return whether it speaks of bits, not of real numbers, however well that is known."""
        return "equal-in-reals" not in (self.holds, *(each.leaves for each in self.assumptions))

    @property
    def preserves(self) -> tuple[str, ...]:
        """Return the semantics in which both computations are the same."""
        return (self.semantics or SEMANTICS) if self.keeps_bits else SEMANTICS[-1:]

    @property
    def known(self) -> str:
        """Return how well that is known, as a word of the evidence of a run."""
        return "tested" if self.level == "tested" else "proved" if self.is_of_rule else "proved-here"

    def to_json(self) -> dict[str, Any]:
        """Return plain data, without empty fields."""
        data = {
            "level": self.level,
            "method": self.method,
            "facts": list(self.facts),
            "assumptions": [each.text for each in self.assumptions],
            "bound": self.bound,
            "flags": list(self.flags),
        }
        return {key: value for key, value in data.items() if value not in (None, "", [])}


def weakest(level: ProofLevel, assumptions: tuple[Assumption, ...]) -> ProofLevel:
    """Return the level that assumptions leave of a proof."""
    return LEVELS[max(map(LEVELS.index, (level, *(each.leaves for each in assumptions))))]


@dataclass(frozen=True)
class Unproved:
    """No proof was found, for a reason; ``refuted`` says that an input was found for which the two differ.

    ``flags`` are those of fast math under which the two would be the same, as far as is known; ``example`` holds the
    inputs for which they differ, by name.
    """

    reason: str
    refuted: bool = False
    flags: tuple[str, ...] = ()
    example: Any = None

    def to_json(self) -> dict[str, Any]:
        """Return plain data, without empty fields."""
        data = {"reason": self.reason, "refuted": self.refuted, "flags": list(self.flags)}
        return {key: value for key, value in data.items() if value not in (None, False, [])}
