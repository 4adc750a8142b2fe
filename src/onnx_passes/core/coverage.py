"""Coverage: which values and branches, that a rewrite might get wrong, the samples of a verified run brought about."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Coverage:
    """Counts of what was seen inside a model, each beside the number of what there is.

    ``inputs`` are values that elementwise operators read, ``boundaries`` the numbers at which operators change their
    mind: limits, bounds, thresholds, rounding ties. ``branches`` are those of If, and bodies of Loop and Scan; they run
    with the model (``taken``) or, if no sample reaches them, ``alone``. Special samples are not counted.
    """

    inputs: int = 0
    negative: int = 0
    zero: int = 0
    positive: int = 0
    boundaries: int = 0
    below: int = 0
    at: int = 0
    above: int = 0
    branches: int = 0
    taken: int = 0
    alone: int = 0

    def with_branches(self, branches: int, taken: int, alone: int) -> Coverage:
        """Return the coverage with counts of branches."""
        return replace(self, branches=branches, taken=taken, alone=alone)

    def to_json(self) -> dict[str, Any]:
        """Return plain data; what the model has none of is left out."""
        parts = {
            "inputs": ("negative", "zero", "positive"),
            "boundaries": ("below", "at", "above"),
            "branches": ("taken", "alone"),
        }
        return {
            name: {"count": count, **{each: getattr(self, each) for each in seen}}
            for name, seen in parts.items()
            if (count := getattr(self, name))
        }

    def __str__(self) -> str:
        parts = [
            (self.inputs, f"inputs of elementwise operators: {self.negative} negative, {self.zero} zero, "
             f"{self.positive} positive of {self.inputs}"),
            (self.boundaries, f"boundaries: {self.below} passed below, {self.at} met, {self.above} passed above "
             f"of {self.boundaries}"),
            (self.branches, f"branches: {self.taken} taken, {self.alone} run alone of {self.branches}"),
        ]  # fmt: skip
        return "; ".join(text for number, text in parts if number)
