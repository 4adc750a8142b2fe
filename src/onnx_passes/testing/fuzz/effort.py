"""Limits of the search for one rule, besides the number of models."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """Limits of the search: number of scouts, time for shrinking, time for a case.

    Scouts run until ``matches`` of them were rewritten; if a rule rewrites most of ``first_scouts``, no more run. One
    case has ``seconds``; a slower one is retried with three times as long before it counts as hanging.
    """

    first_scouts: int = 12
    matches: int = 20
    most_scouts: int = 240
    shrink_cases: int = 300
    shrink_seconds: float = 40.0
    seconds: float = 10.0
