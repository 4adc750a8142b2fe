"""Coverage: values and branches that a wrong rewrite might affect, and how many the samples of a run reached."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Coverage:
    """Numbers of values and branches that samples reached, each next to the total number.

    ``inputs`` are values that elementwise operators read, ``boundaries`` the numbers at which operators change their
    behaviour: limits, bounds, thresholds, rounding ties. ``branches`` are those of If, and bodies of Loop and Scan;
    they run with the model (``taken``) or, if no sample reaches them, ``alone``. Special samples are not counted.
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
        """Return the coverage with numbers of branches."""
        return replace(self, branches=branches, taken=taken, alone=alone)

    def to_json(self) -> dict[str, Any]:
        """Return plain data; kinds that the model does not have are left out."""
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
