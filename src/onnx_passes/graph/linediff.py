"""Compare two similar long texts as a unified diff, in linear time."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_CONTEXT = 3
# Ranges without a unique common line are compared line by line only up to this length, as that is quadratic.
_SMALL = 300


def unified_diff(a: Sequence[str], b: Sequence[str], name_a: str, name_b: str) -> str:
    """Return the changes from one listing to another as a unified diff; empty if there are none.

    Lines that are unique in both are matched first, so the cost stays linear for long listings.
    """
    changes = list(_changes(a, b))
    if not changes:
        return ""
    lines = [f"--- {name_a}", f"+++ {name_b}"]
    hunk: list[tuple[int, int, int, int]] = []
    for change in changes:
        if hunk and change[0] - hunk[-1][1] > 2 * _CONTEXT:
            lines.extend(_hunk(a, b, hunk))
            hunk = []
        hunk.append(change)
    lines.extend(_hunk(a, b, hunk))
    return "\n".join(lines) + "\n"


def _hunk(a: Sequence[str], b: Sequence[str], changes: list[tuple[int, int, int, int]]) -> Iterator[str]:
    before = min(_CONTEXT, changes[0][0])
    after = min(_CONTEXT, len(a) - changes[-1][1])
    start_a, end_a = changes[0][0] - before, changes[-1][1] + after
    start_b, end_b = changes[0][2] - before, changes[-1][3] + after
    yield f"@@ -{_range(start_a, end_a)} +{_range(start_b, end_b)} @@"
    position = start_a
    for first_a, last_a, first_b, last_b in changes:
        yield from (f" {line}" for line in a[position:first_a])
        yield from (f"-{line}" for line in a[first_a:last_a])
        yield from (f"+{line}" for line in b[first_b:last_b])
        position = last_a
    yield from (f" {line}" for line in a[position:end_a])


def _range(start: int, end: int) -> str:
    length = end - start
    return f"{start + 1 if length else start}{'' if length == 1 else f',{length}'}"


def _changes(a: Sequence[str], b: Sequence[str]) -> Iterator[tuple[int, int, int, int]]:
    """Yield the ranges a[i:j] that became b[k:l] as (i, j, k, l), in order."""
    here_a = here_b = 0
    for line_a, line_b in [*_anchors(a, b), (len(a), len(b))]:
        yield from _stretch_changes(a, b, here_a, line_a, here_b, line_b)
        here_a, here_b = line_a + 1, line_b + 1


def _anchors(a: Sequence[str], b: Sequence[str]) -> list[tuple[int, int]]:
    """Return the lines that both texts have exactly once, if they are in the same order."""
    counts_a, counts_b = Counter(a), Counter(b)
    places = {line: index for index, line in enumerate(b) if counts_b[line] == 1}
    pairs = [(index, places[line]) for index, line in enumerate(a) if counts_a[line] == 1 and line in places]
    ends: list[int] = []
    last: list[int] = []
    previous: list[int] = []
    for number, (_, place) in enumerate(pairs):
        rank = bisect_left(ends, place)
        previous.append(last[rank - 1] if rank else -1)
        if rank == len(ends):
            ends.append(place)
            last.append(number)
        else:
            ends[rank], last[rank] = place, number
    chain: list[tuple[int, int]] = []
    number = last[-1] if last else -1
    while number >= 0:
        chain.append(pairs[number])
        number = previous[number]
    return chain[::-1]


def _stretch_changes(
    a: Sequence[str], b: Sequence[str], start_a: int, end_a: int, start_b: int, end_b: int
) -> Iterator[tuple[int, int, int, int]]:
    while start_a < end_a and start_b < end_b and a[start_a] == b[start_b]:
        start_a, start_b = start_a + 1, start_b + 1
    while start_a < end_a and start_b < end_b and a[end_a - 1] == b[end_b - 1]:
        end_a, end_b = end_a - 1, end_b - 1
    if start_a == end_a and start_b == end_b:
        return
    if max(end_a - start_a, end_b - start_b) > _SMALL:
        yield start_a, end_a, start_b, end_b
        return
    matcher = SequenceMatcher(None, a[start_a:end_a], b[start_b:end_b], autojunk=False)
    for tag, i, j, k, last in matcher.get_opcodes():
        if tag != "equal":
            yield start_a + i, start_a + j, start_b + k, start_b + last
