"""Claims of passes about their results, which the verification instrument checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

ClaimKind = Literal["equality", "tolerance", "metric", "structure"]


@dataclass(frozen=True)
class Claim:
    """Claim of a pass: bit-equal results, results within a tolerance, a metric in its range, or a structure."""

    kind: ClaimKind
    parameters: Mapping[str, object] = field(default_factory=dict[str, object])

    def __str__(self) -> str:
        inner = ", ".join(f"{key}={value}" for key, value in self.parameters.items())
        return f"{self.kind}({inner})" if inner else self.kind
