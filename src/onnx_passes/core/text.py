"""Shortened texts, names shortened so that they stay distinct, and sizes with a unit."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

_SEPARATOR = re.compile(r"[/.:]")
_LEAST = 8
"""Below this number of characters, names are numbered instead of shortened."""


def shortened(text: str, most: int, *, front: bool = False) -> str:
    """Shorten a long text at its end or, for names with the same beginning, at its front."""
    if len(text) <= most:
        return text
    return f"…{text[len(text) - most + 1 :]}" if front else f"{text[: most - 1]}…"


def told_apart(names: Iterable[str], most: int) -> Mapping[str, str]:
    """Shorten names to their distinguishing parts: distinct names stay distinct, within ``most`` characters.

    A single name keeps its end, as modules come first. Names with the same end keep a part of it, after the difference.
    If there is no room for that, they are numbered.
    """
    distinct = list(dict.fromkeys(names))
    found = dict(_cut(distinct, most))
    times = Counter(found.values())
    taken = set(found.values())
    for name, short in found.items():
        if times[short] > 1 and short != name:
            found[name] = next(text for text in _numbered(short, most) if text not in taken)
            taken.add(found[name])
    return found


def _cut(names: Sequence[str], most: int) -> Iterator[tuple[str, str]]:
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        groups[shortened(name, most, front=True)].append(name)
    for short, group in groups.items():
        if len(group) == 1 or most < _LEAST:
            yield from ((name, short) for name in group)
            continue
        end = _common_end(group)
        kept = _last_part(end[len(end) - most // 2 :])
        stems = {name: name[: len(name) - len(end)] for name in group}
        apart = dict(_cut([*stems.values()], most - len(kept) - 1))
        # The text after the difference fills the remaining room, unless names become equal.
        filled = [f"{apart[stem]}{end}"[: most - len(kept) - 1] for stem in stems.values()]
        parts = filled if len(set(filled)) == len(filled) else [apart[stem] for stem in stems.values()]
        yield from ((name, f"{part}…{kept}") for name, part in zip(stems, parts, strict=True))


def _common_end(names: Sequence[str]) -> str:
    turned = [name[::-1] for name in names]
    least, greatest = min(turned), max(turned)
    # A prefix of the alphabetically first and last name is a prefix of all.
    alike = next((place for place, (a, b) in enumerate(zip(least, greatest, strict=False)) if a != b), len(least))
    return least[:alike][::-1]


def _last_part(end: str) -> str:
    """Return the last part from a separator on, if there is one."""
    start = _SEPARATOR.search(end)
    return end[len(end) // 3 :] if start is None else end[start.start() :]


def _numbered(text: str, most: int) -> Iterator[str]:
    number = 2
    while True:
        mark = f"~{number}"
        yield f"{text[: max(most - len(mark), 0)]}{mark}"
        number += 1


def size_text(size: float) -> str:
    """Print a number of bytes for people."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
