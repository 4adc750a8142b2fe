"""Texts cut to a length."""

from __future__ import annotations


def shortened(text: str, most: int, *, front: bool = False) -> str:
    """Cut a long text at its end, or at its front, where names are alike."""
    if len(text) <= most:
        return text
    return f"…{text[len(text) - most + 1 :]}" if front else f"{text[: most - 1]}…"
