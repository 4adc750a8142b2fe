"""How much is spent on one rule beside the models that are asked for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """Limits of the search: ``scouts`` look for what lets a rule match, a failure is shrunk, a case ends in time.

    Scouts go out until ``matches`` of them were rewritten; a rule that rewrites most of ``first_scouts`` needs no more.
    ``seconds`` are given to one case; what takes longer is given three times as many before it counts as hanging.
    """

    first_scouts: int = 12
    matches: int = 20
    most_scouts: int = 240
    shrink_cases: int = 300
    shrink_seconds: float = 40.0
    seconds: float = 10.0
