"""Pages of results for notebooks: HTML that needs nothing else, and a short text beside it."""

from __future__ import annotations

_LINES = 24


def mimebundle(thing: object) -> dict[str, str]:
    """Return what a notebook shows."""
    return {"text/plain": text_of(thing)}


def text_of(thing: object) -> str:
    """Return the text of a result, its first lines if there are many."""
    lines = str(thing).rstrip("\n").split("\n")
    more = len(lines) - _LINES
    return "\n".join([*lines[:_LINES], f"… {more} more lines"] if more > 0 else lines)
