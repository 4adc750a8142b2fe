"""What is found out about a model when its report is written: numbers of its values, and what stands in the way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass
class Findings:
    """Facts by name of a value, after the run and before it; what blocks; layers with their bits; integer shares."""

    final: dict[str, Json] = field(default_factory=dict[str, Json])
    original: dict[str, Json] = field(default_factory=dict[str, Json])
    blockers: list[Json] = field(default_factory=list[Json])
    bits: list[Json] = field(default_factory=list[Json])
    shares: tuple[float | None, float | None] = (None, None)
