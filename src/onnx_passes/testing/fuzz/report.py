"""Results of fuzzing, for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

_MOST_VALUES = 24


class Kind(StrEnum):
    """Kind of a failure, the most severe first."""

    CRASH = "CRASH"
    HANG = "HANG"
    INVALID = "INVALID"
    INTERFACE = "INTERFACE"
    DTYPE = "DTYPE"
    SHAPE = "SHAPE"
    WRONG = "WRONG"
    NONFINITE = "NONFINITE"
    SIGNZERO = "SIGNZERO"
    ROUND = "ROUND"

    @property
    def severity(self) -> int:
        """Return the place in the order, 0 for the most severe."""
        return list(Kind).index(self)

    @property
    def is_soft(self) -> bool:
        """Return whether the failure only shows on special numbers or in the last digits."""
        return self.severity > list(Kind).index(Kind.WRONG)


@dataclass(frozen=True)
class Finding:
    """One way in which a rule fails: the smallest model that shows it, before and after."""

    kind: Kind
    message: str
    model_text: str
    after_text: str = ""
    feed: Mapping[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    rule: str = ""
    pipeline: str = ""
    """The passes that were applied, if it was not a single rule."""

    def describe(self) -> str:
        """Describe the model before and after, the data, and the difference."""
        parts = [f"{self.kind} in {self.rule}: {self.message}"]
        if self.pipeline:
            parts.append(f"pipeline: {self.pipeline}")
        parts += ["before:", _indent(self.model_text)]
        if self.after_text:
            parts += ["after:", _indent(self.after_text)]
        if self.feed:
            parts += ["inputs:", *(f"  {name} = {_show(array)}" for name, array in self.feed.items())]
        return "\n".join(parts)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "kind": str(self.kind),
            "rule": self.rule,
            "message": self.message,
            **({"pipeline": self.pipeline} if self.pipeline else {}),
            "before": self.model_text,
            "after": self.after_text,
            "inputs": {
                name: {"dtype": array.dtype.name, "shape": list(array.shape), "values": str(array.tolist())}
                for name, array in self.feed.items()
            },
        }


@dataclass
class FuzzReport:
    """Number of models, number of models that a rule rewrote, and the findings.

    ``skipped`` models did not run before the rewrite and do not count. The ``disputed`` ones among them run, but two
    engines disagree on their results. ``dead`` names the rules that matched too few models to judge them.
    """

    rule: str
    cases: int = 0
    matches: int = 0
    skipped: int = 0
    disputed: int = 0
    findings: list[Finding] = field(default_factory=list[Finding])
    dead: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Return whether the rule matched often enough without a finding."""
        return not self.findings and not self.dead

    @property
    def kinds(self) -> set[Kind]:
        """Return the kinds of all findings."""
        return {finding.kind for finding in self.findings}

    def add(self, other: FuzzReport) -> None:
        """Add the report of another rule of the same pass."""
        self.cases += other.cases
        self.matches += other.matches
        self.skipped += other.skipped
        self.disputed += other.disputed
        self.findings += other.findings
        self.dead += other.dead
        self.seconds += other.seconds

    def summary(self) -> str:
        """Return a one-line summary."""
        verdict = ", ".join(str(finding.kind) for finding in self.findings)
        if self.dead:
            hint = "hardly matches" if self.matches else "never matches"
            verdict = ", ".join(filter(None, [verdict, *(f"'{name}' {hint}" for name in self.dead)]))
        disputed = f" ({self.disputed} disputed)" if self.disputed else ""
        numbers = f"{self.matches} of {self.cases} models rewritten, {self.skipped} skipped{disputed}"
        return f"{self.rule}: {verdict or 'ok'} ({numbers}, {self.seconds:.1f} s)"

    def describe(self) -> str:
        """Return the summary and all findings as text."""
        return "\n\n".join([self.summary(), *(finding.describe() for finding in self.findings)])

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "rule": self.rule,
            "ok": self.ok,
            "cases": self.cases,
            "matches": self.matches,
            "skipped": self.skipped,
            "disputed": self.disputed,
            "dead": list(self.dead),
            "seconds": round(self.seconds, 3),
            "findings": [finding.to_json() for finding in self.findings],
        }


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.strip().splitlines())


def _show(array: np.ndarray) -> str:
    values = array.tolist() if array.size <= _MOST_VALUES else f"{array.size} values from {array.flat[0]}"
    return f"{array.dtype.name}{list(array.shape)} {values}"
