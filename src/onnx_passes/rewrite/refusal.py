"""Answers of a check: yes, or no with the reason and the place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

yes = True


class Refusal:
    """A falsy answer that says why; where a rule refuses, statistics and explanations count the reasons."""

    __slots__ = ("at", "reason")

    def __init__(self, reason: str, at: ir.Value | ir.Node | None = None) -> None:
        self.reason = reason
        self.at = at

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"no({self.reason!r})"


Answer = bool | Refusal
"""What a check says."""

Rewritten: TypeAlias = "ir.Value | Sequence[ir.Value] | Refusal | None"
"""What a rewrite returns: a value for each value of the pattern, or why there is none."""


def no(reason: str, at: ir.Value | ir.Node | None = None) -> Refusal:
    """Refuse a match, saying why, and at which value or node."""
    return Refusal(reason, at)


def reason_of(answer: Any, default: str) -> str:
    """Return why an answer is negative: ours, onnxscript's, or a default for a bare ``False``."""
    return getattr(answer, "reason", None) or default
