"""The page of benchmarks: tables, bars and losses, from the results of benchmarks/results.py."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from generators.markdown import escaped, raw, table, write_page

RESULTS = Path(__file__).parent.parent / "benchmarks" / "results.json"
_LABEL, _BAR, _LINE, _GAP = 190, 380, 18, 14
_COLOURS = ("#2f5d8c", "#8c4563", "#2f6f6a", "#6d4a9c", "#9a6700", "#4d5a6e", "#55569b")
"""Colours for light and dark pages, in the order of the columns."""


def write_benchmarks(page: Path, results: Path = RESULTS) -> None:
    """Write the page; without results, explain how to make them."""
    found: Mapping[str, Any] = json.loads(results.read_text(encoding="utf-8")) if results.exists() else {}
    write_page(
        page,
        "# Benchmarks",
        "The last results of `make bench`, including all cases where another tool is better. Figures of one machine: "
        "run it on yours. All times are processor times.",
        *(part for result in found.values() for part in _section(result)),
        "" if found else "There are no results: `make bench bench-publish` makes them.",
    )


def _section(result: Mapping[str, Any]) -> Iterable[str]:
    yield f"## {result['title']}"
    yield escaped(result["about"])
    for each in result["tables"]:
        yield f"### {escaped(each['caption'])}"
        yield table(
            [escaped(name) for name in each["columns"]], ([_cell(cell) for cell in row] for row in each["rows"])
        )
        if each["bars"]:
            yield raw(_bars(each))
    yield "### Losses"
    yield "\n".join(f"- {escaped(loss)}" for loss in result["losses"]) or "None in these figures."
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    yield f"*{escaped(result['machine'])}; {escaped(versions)}*"


def _cell(cell: object) -> str:
    return f"{cell:,}" if isinstance(cell, int | float) else escaped(str(cell))


def _bars(data: Mapping[str, Any]) -> str:
    """Draw bars for each row, scaled to the longest bar of the row."""
    columns: Sequence[str] = data["columns"]
    shown = [columns.index(name) for name in data["bars"]]
    parts: list[str] = []
    y = 0
    for row in data["rows"]:
        parts.append(f'<text x="0" y="{y + 13}" font-weight="600">{escape(str(row[0]))}</text>')
        y += _LINE
        longest = max((float(row[at]) for at in shown), default=0.0) or 1.0
        for number, at in enumerate(shown):
            width = max(1.0, _BAR * float(row[at]) / longest)
            colour = _COLOURS[number % len(_COLOURS)]
            middle = y + 13
            parts.append(f'<text x="{_LABEL - 8}" y="{middle}" text-anchor="end">{escape(columns[at])}</text>')
            parts.append(f'<rect x="{_LABEL}" y="{y + 3}" width="{width:.1f}" height="12" rx="2" fill="{colour}"/>')
            parts.append(f'<text x="{_LABEL + width + 6:.1f}" y="{middle}">{_cell(row[at])}</text>')
            y += _LINE
        y += _GAP
    size = f'width="{_LABEL + _BAR + 90}" height="{y}" viewBox="0 0 {_LABEL + _BAR + 90} {y}"'
    label = escape(data["caption"], quote=True)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{label}" style="max-width:100%"'
    return f'{head} font-family="system-ui, sans-serif" font-size="12" fill="currentColor">{"".join(parts)}</svg>'
