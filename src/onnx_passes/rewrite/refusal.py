"""Answers of a check: yes, or no with the reason and the place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from onnx_passes.rewrite.source import is_of_onnxscript

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

yes = True


class Refusal:
    """A falsy answer with a reason; statistics and explanations count the reasons of refusals."""

    __slots__ = ("at", "reason")

    def __init__(self, reason: str, at: ir.Value | ir.Node | None = None) -> None:
        self.reason = reason
        self.at = at

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"no({self.reason!r})"


class RefusalError(Exception):
    """Refuses a match from within a function that a check or a rewrite calls."""

    def __init__(self, reason: str, at: ir.Value | ir.Node | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.at = at


def refusal_of(error: Exception) -> Refusal | None:
    """Return the refusal of a RefusalError or of a match failure of onnxscript; None for other exceptions."""
    if isinstance(error, RefusalError):
        return Refusal(error.reason, error.at)
    if is_of_onnxscript(error) and hasattr(error, "failure_sources"):
        failure: Any = error
        return Refusal(failure.reason, next(iter(failure.failure_sources), None))
    return None


Answer = bool | Refusal
"""The result of a check."""

Rewritten: TypeAlias = "ir.Value | Sequence[ir.Value] | Refusal | None"
"""The result of a rewrite: a value for each value of the pattern, or the reason why there is none."""


def no(reason: str, at: ir.Value | ir.Node | None = None) -> Refusal:
    """Refuse a match, saying why, and at which value or node."""
    return Refusal(reason, at)


def reason_of(answer: Any, default: str) -> str:
    """Return why an answer is negative: ours, onnxscript's, or a default for a bare ``False``."""
    return getattr(answer, "reason", None) or default
