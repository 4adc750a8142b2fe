"""Coloured differences of printed graphs: lines, changes within lines, and contents of constants."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from difflib import SequenceMatcher
from itertools import groupby
from typing import TextIO

from rich.console import Console
from rich.text import Text

_COLOURS = {"-": "red", "+": "green"}
_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_RESULT = re.compile(r"\s*(?:constant )?([^=:]+?)(?: =|:)")
_ALIKE = 0.6
"""Lines that share less than this are not compared word by word."""
Summary = Callable[[str, str], str]
"""Returns the content of a constant on one side, given the sign of the side and the name."""


def coloured_console(stream: TextIO) -> Console | None:
    """Return a console if the stream is a terminal on which colours are wanted."""
    if not stream.isatty():
        return None
    console = Console(file=stream, highlight=False)
    return None if console.no_color or not console.color_system else console


def coloured_list(changes: str) -> Text:
    """Colour a list of changes by the sign in front of them."""
    text = Text()
    for line in changes.rstrip("\n").split("\n"):
        sign = line.lstrip()[:1]
        text.append(f"{line}\n", style=_COLOURS.get(sign, "yellow" if sign == "~" else ""))
    return text


def coloured(difference: str, summary: Summary) -> Text:
    """Colour a unified difference; changes within a line are emphasised."""
    text = Text()
    for is_change, lines in groupby(difference.rstrip("\n").split("\n"), _is_change):
        group = list(lines)
        if not is_change:
            for line in group:
                text.append(f"{line}\n", style=_plain_style(line))
            continue
        sides = {sign: {_name(line[1:]): line[1:] for line in group if line[0] == sign} for sign in _COLOURS}
        for line in group:
            sign, content = line[0], line[1:]
            name = _name(content)
            other = sides["+" if sign == "-" else "-"].get(name) if name else None
            text.append_text(_line(sign, content, other, summary))
    return text


def _is_change(line: str) -> bool:
    return line[:1] in _COLOURS and not line.startswith(("--- ", "+++ "))


def _plain_style(line: str) -> str:
    if line.startswith(("--- ", "+++ ")):
        return "bold"
    return "cyan" if line.startswith("@@") else "dim"


def _name(line: str) -> str:
    found = _RESULT.match(line)
    return found[1] if found else ""


def _line(sign: str, line: str, other: str | None, summary: Summary) -> Text:
    colour = _COLOURS[sign]
    text = Text().append(sign, style=f"bold {colour}")
    for part, is_new in _parts(line, other):
        text.append(part, style=f"bold {colour} reverse" if is_new and part.strip() else colour)
    if line.lstrip().startswith("constant ") and (held := summary(sign, _name(line))):
        text.append(f"  {held}", style="dim")
    return text.append("\n")


def _parts(line: str, other: str | None) -> Iterator[tuple[str, bool]]:
    """Split a line into parts shared with another one and new parts; lines that share little are one part."""
    words, before = _WORD.findall(line), _WORD.findall(other or "")
    matcher = SequenceMatcher(None, before, words, autojunk=False)
    if other is None or matcher.ratio() < _ALIKE:
        yield line, False
        return
    for kind, _, _, start, end in matcher.get_opcodes():
        yield "".join(words[start:end]), kind != "equal"
