"""What is known of a rewrite beyond samples: how far a proof reaches, by which method, and what it rests on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

ProofLevel = Literal["proved", "proved-here", "equal-in-reals"]


@dataclass(frozen=True)
class Proof:
    """Two computations are known to be the same.

    ``proved`` says so for all inputs, shapes and types of a declared domain, bit by bit; ``proved-here`` for every
    input that can occur in this place, bit by bit or, where a fact says so, in the exact arithmetic that a quantized
    network means; ``equal-in-reals`` of real numbers, so that floats differ by rounding only, by at most ``bound``
    where that is known. ``facts`` are what the proof rests on, one sentence each: ``accumulator ≤ 2¹⁷ < 2²⁴``.
    ``flags`` are those of fast math without which bits may differ.
    """

    level: ProofLevel
    method: str
    facts: tuple[str, ...] = ()
    bound: float | None = None
    flags: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain data, without what is empty."""
        data = {
            "level": self.level,
            "method": self.method,
            "facts": list(self.facts),
            "bound": self.bound,
            "flags": list(self.flags),
        }
        return {key: value for key, value in data.items() if value not in (None, "", [])}


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
        """Return plain data, without what is empty."""
        data = {"reason": self.reason, "refuted": self.refuted, "flags": list(self.flags)}
        return {key: value for key, value in data.items() if value not in (None, False, [])}
