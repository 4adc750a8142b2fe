"""Texts cut to a length, and names cut so that they stay distinct."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

_SEPARATOR = re.compile(r"[/.:]")
_LEAST = 8
"""Names are not told apart within fewer characters than these, but numbered."""


def shortened(text: str, most: int, *, front: bool = False) -> str:
    """Cut a long text at its end, or at its front, where names are alike."""
    if len(text) <= most:
        return text
    return f"…{text[len(text) - most + 1 :]}" if front else f"{text[: most - 1]}…"


def told_apart(names: Iterable[str], most: int) -> Mapping[str, str]:
    """Shorten names to what tells them apart: distinct names stay distinct, within ``most`` characters.

    A name alone keeps its end, as modules come first. Names with the same end keep a part of it, behind what differs.
    Where there is no room for that, they are numbered.
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
        # What follows the difference fills the room that is left, unless names become alike by it.
        filled = [f"{apart[stem]}{end}"[: most - len(kept) - 1] for stem in stems.values()]
        parts = filled if len(set(filled)) == len(filled) else [apart[stem] for stem in stems.values()]
        yield from ((name, f"{part}…{kept}") for name, part in zip(stems, parts, strict=True))


def _common_end(names: Sequence[str]) -> str:
    turned = [name[::-1] for name in names]
    least, greatest = min(turned), max(turned)
    # What the first and the last in the order of the alphabet share, all between them share.
    alike = next((place for place, (a, b) in enumerate(zip(least, greatest, strict=False)) if a != b), len(least))
    return least[:alike][::-1]


def _last_part(end: str) -> str:
    """Begin at a separator, if there is one."""
    start = _SEPARATOR.search(end)
    return end[len(end) // 3 :] if start is None else end[start.start() :]


def _numbered(text: str, most: int) -> Iterator[str]:
    number = 2
    while True:
        mark = f"~{number}"
        yield f"{text[: max(most - len(mark), 0)]}{mark}"
        number += 1
