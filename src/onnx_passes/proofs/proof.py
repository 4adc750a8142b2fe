"""What is known of a rewrite beyond samples: how far a proof reaches, its method, its assumptions, its exceptions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

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
        """Return the weakest of what is proved and what the assumptions leave of it."""
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
        """Return plain data, without what is empty."""
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
    """Return what assumptions leave of a level."""
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
        """Return plain data, without what is empty."""
        data = {"reason": self.reason, "refuted": self.refuted, "flags": list(self.flags)}
        return {key: value for key, value in data.items() if value not in (None, False, [])}


Array = np.ndarray[Any, Any]

ROUNDING = frozenset({"reassoc", "contract"})
"""Flags that allow nothing but other rounding."""


def excuses(x: Array, y: Array, inputs: Sequence[Array]) -> dict[str, Array]:
    """Tell for each pair of different results which flag excuses it; what no flag excuses is in none.

    NaN or infinite inputs are ``nnan`` and ``ninf``, and so are results out of ordinary numbers; zeros of different
    sign are ``nsz``; results that differ, or overflow for inputs that are very large or small, ``reassoc``.
    """
    with np.errstate(all="ignore"):
        floats = [array for array in inputs if array.dtype.kind not in "biu"]
        numbers = [array.astype(np.float64) for array in floats]
        a, b = (x.astype(np.float64), y.astype(np.float64)) if x.dtype.kind not in "biu" else (None, None)
    nothing = np.zeros(len(x), bool)
    nan = _any([np.isnan(number) for number in numbers], nothing)
    infinite = _any([np.isinf(number) for number in numbers], nothing) & ~nan
    if a is None or b is None:
        return {"nnan": nan, "ninf": infinite}
    extreme = _any([_is_extreme(array) for array in floats], nothing)
    plain = ~nan & ~infinite
    zeros = plain & (a == 0) & (b == 0)
    born = plain & ~extreme & ~(np.isfinite(a) & np.isfinite(b))
    # Beside infinities, what overflows is no matter of theirs.
    invalid = np.isnan(a) | np.isnan(b)
    special = {"nnan": nan | born & invalid, "ninf": infinite & ~extreme | born & ~invalid, "nsz": zeros}
    return {**special, "reassoc": ~_any(special.values(), nothing)}


def needed(found: dict[str, Array]) -> frozenset[str]:
    """Name the flags that excuse anything."""
    return frozenset(flag for flag, where in found.items() if where.any())


def unexcused(found: dict[str, Array], allowed: Collection[str]) -> Array:
    """Tell which differences no allowed flag excuses."""
    return ~_any([where for flag, where in found.items() if flag in allowed], np.zeros_like(found["nnan"]))


def _any(masks: Iterable[Array], start: Array) -> Array:
    found = start
    for mask in masks:
        found = found | mask
    return found


def _is_extreme(array: Array) -> Array:
    """Tell which numbers are so large or small that squares and the like leave the range of their type."""
    with np.errstate(all="ignore"):
        wide = np.abs(array.astype(np.float64))
    reach = 2.0**30 if array.dtype.itemsize >= 4 or array.dtype.name == "bfloat16" else 2.0**9
    return np.isfinite(wide) & (wide != 0) & ((wide > reach) | (wide < 1 / reach))
