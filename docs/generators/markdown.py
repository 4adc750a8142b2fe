"""Parts of MyST Markdown: text of docstrings, tables, code, raw HTML, lists of pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

_CODE = re.compile(r"``(.+?)``", re.DOTALL)
_SPECIAL = re.compile(r"([\\`*_\[\]<>$|])")


def prose(text: str) -> str:
    """Convert text of a docstring, with code in double backticks, to Markdown."""
    parts = _CODE.split(text)
    return "".join(code(part) if at % 2 else escaped(part) for at, part in enumerate(parts))


def escaped(text: str) -> str:
    """Escape text so that no part of it is Markdown."""
    return _SPECIAL.sub(r"\\\1", text)


def code(text: str) -> str:
    """Write a span of code, on one line."""
    line = " ".join(text.split())
    fence = "``" if "`" in line else "`"
    return f"{fence} {line} {fence}" if "`" in line else f"{fence}{line}{fence}"


def fenced(text: str, language: str = "text") -> str:
    """Write a block of code."""
    fence = "````" if "```" in text else "```"
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def raw(html: str) -> str:
    """Write HTML that is passed through to the page."""
    return f"````{{raw}} html\n{html.strip()}\n````"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table; cells are Markdown, in which vertical bars are escaped."""
    lines = [_row(head), "|" + "---|" * len(head), *map(_row, rows)]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    # Bars are also escaped in code: tables are split before code is parsed.
    return "| " + " | ".join(re.sub(r"(?<!\\)\|", r"\\|", " ".join(cell.split())) for cell in cells) + " |"


def toctree(pages: Iterable[str], *, hidden: bool = True, depth: int = 1) -> str:
    """List the subpages."""
    options = [":hidden:"] if hidden else [f":maxdepth: {depth}"]
    return "\n".join(["```{toctree}", *options, "", *pages, "```"])


def write_page(path: Path, *parts: str) -> None:
    """Write a page unless it exists with the same text: Sphinx rereads newer files."""
    text = "\n\n".join(part for part in parts if part).rstrip() + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
