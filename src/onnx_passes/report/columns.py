"""Tables that fit any width: numbers are never cut, texts break between words, other columns are dropped.

Nothing here needs a terminal library, so that ``list`` and ``explain`` start fast.
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TextIO

from onnx_passes.core.pipeline import without_body
from onnx_passes.core.text import told_apart

_GAP = 2
_LONG_NAME = 34
_KEPT = 2
"""So many columns are shown, however little room there is."""
_ITEM = re.compile(r"([A-Z][a-z]+(?: [a-z]+)?:\s+)|  (?! )")
"""The start of a labelled paragraph, or of a line in a list."""
_FULL_LINE = 100
"""Documentation is reflowed if a line exceeds this width: shorter lines end intentionally."""


@dataclass(frozen=True)
class Column:
    """A column, and its behaviour when there is little room.

    ``wrap`` breaks texts between words, ``front`` and ``end`` cut them there, never below ``least`` characters. Of
    columns with ``spare`` above 0 the highest is dropped first.
    """

    title: str
    right: bool = False
    shorten: Literal["", "wrap", "front", "end"] = ""
    least: int = 12
    spare: int = 0


def width_of(stream: TextIO, otherwise: int) -> int:
    """Return the width of a stream in characters; a file has none, unless COLUMNS is set."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(stream.fileno()).columns or otherwise if stream.isatty() else otherwise
    except (OSError, ValueError):
        return otherwise


def fit(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int, *, cut: bool = False) -> list[int]:
    """Return the width of every column, 0 for dropped ones.

    If the numbers do not fit, lines are too long or, with ``cut``, the last columns are dropped: the first ones name
    the row.
    """
    titled = zip((column.title for column in columns), *rows, strict=True)
    natural = [max(_longest_line(cell) for cell in cells) for cells in titled]
    shown = list(range(len(columns)))
    while True:
        least = [min(natural[i], max(columns[i].least, len(columns[i].title))) for i in shown]
        needed = [least[k] if columns[i].shorten else natural[i] for k, i in enumerate(shown)]
        spare = max(shown, key=lambda i: columns[i].spare)
        if sum(needed) + _GAP * (len(shown) - 1) <= width or not columns[spare].spare:
            break
        shown.remove(spare)
    widths = [natural[i] if i in shown else 0 for i in range(len(columns))]
    floor = dict(zip(shown, needed, strict=True))
    while sum(widths) + _GAP * (len(shown) - 1) > width:
        wide = [i for i in shown if widths[i] > floor[i]]
        if wide:
            widths[max(wide, key=lambda i: widths[i])] -= 1
        elif cut and len(shown) > _KEPT:
            widths[shown.pop()] = 0
        else:
            break
    return widths


def cell_lines(column: Column, text: str, width: int) -> list[str]:
    """Return the lines of one cell."""
    if _longest_line(text) <= width or not column.shorten:
        return text.split("\n")
    if column.shorten == "wrap":
        return [part for line in text.split("\n") for part in wrapped(line, width)]
    return [f"…{text[1 - width :]}" if column.shorten == "front" else f"{text[: width - 1]}…"]


def pass_cell(text: str, depth: int) -> str:
    """Return a pass with its options, on a separate line if they are long, without nested passes."""
    indent, text = "  " * depth, without_body(text)
    name, brace, options = text.partition("{")
    if len(indent) + len(text) <= _LONG_NAME or not brace:
        return indent + text
    return f"{indent}{name}\n{indent}  {brace}{options}"


def table_lines(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Lay out rows as text, without a line of titles if no column has one."""
    widths = fit(columns, rows, width)
    titles = [column.title for column in columns]
    shown = with_names_apart(columns, rows, widths)
    for row in (titles, *shown) if any(titles) else shown:
        yield from row_lines(columns, row, widths)


def with_names_apart(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], widths: Sequence[int]
) -> list[list[str]]:
    """Shorten the names of columns that are cut in front, so that different rows stay different."""
    shown = [list(row) for row in rows]
    for index, (column, width) in enumerate(zip(columns, widths, strict=True)):
        if column.shorten != "front" or not width:
            continue
        apart = told_apart((row[index] for row in rows), width)
        for row in shown:
            row[index] = apart[row[index]]
    return shown


def row_lines(columns: Sequence[Column], row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    """Lay out one row."""
    parts = [
        cell_lines(column, cell, width) if width else []
        for column, cell, width in zip(columns, row, widths, strict=True)
    ]
    for number in range(max(map(len, parts))):
        cells = [part[number] if number < len(part) else "" for part in parts]
        padded = [
            f"{cell:>{width}}" if column.right else f"{cell:<{width}}"
            for column, cell, width in zip(columns, cells, widths, strict=True)
            if width
        ]
        yield (" " * _GAP).join(padded).rstrip()


def wrapped(text: str, width: int, hang: str = "") -> list[str]:
    """Break a line between words; a word that is too long stays whole."""
    indent = text[: len(text) - len(text.lstrip())]
    lines = textwrap.wrap(
        text.strip(),
        max(width, 1),
        initial_indent=indent,
        subsequent_indent=hang or indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return lines or [""]


def reflowed(text: str, width: int) -> str:
    """Reflow a text with labels, ``Refuses: …``, to a width, with indentation after each label."""
    if all(len(line) <= width for line in text.split("\n")):
        return text
    return "\n".join(
        line for label, paragraph in _paragraphs(text.split("\n")) for line in wrapped(paragraph, width, " " * label)
    )


def _paragraphs(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Join lines that were broken only because they were full; each with the indentation of its further lines."""
    paragraph = lines[0]
    for last, line in pairwise(lines):
        words = line.split()
        is_full = bool(last and words) and len(last) + len(words[0]) >= _FULL_LINE
        if is_full and not _ITEM.match(line):
            paragraph = f"{paragraph} {line.strip()}"
        else:
            yield _hang(paragraph), paragraph
            paragraph = line
    yield _hang(paragraph), paragraph


def _hang(line: str) -> int:
    item = _ITEM.match(line)
    return 0 if item is None else item.end() if item[1] else 6


def _longest_line(text: str) -> int:
    return max(map(len, text.split("\n")))
