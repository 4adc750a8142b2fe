"""Follow what is known along axes through a change of shape that keeps the order of elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from onnx_passes.analysis.ranges.range import Range

Dims = Sequence[int | str | None]


class _Group(NamedTuple):
    """Axes that hold the same elements before and after; without sizes it is not known how."""

    before: range
    after: range
    is_known: bool


def regrouped(found: Range, before: Dims, after: Dims) -> Range:
    """Return the range of a reshaped tensor."""
    groups = _groups(before, after)
    lost = [axis for group in groups if not group.is_known for axis in group.before]
    return found.joined(lost).mapped(lambda array: _reshaped(array, groups, before, after))


def _reshaped(array: np.ndarray, groups: Sequence[_Group], before: Dims, after: Dims) -> np.ndarray:
    expanded, shape = list(array.shape), list[int]()
    for group in groups:
        if all(array.shape[axis] == 1 for axis in group.before):
            shape += [1] * len(group.after)
            continue
        if len(group.before) == len(group.after) == 1:
            shape.append(array.shape[group.before[0]])
            continue
        for axis in group.before:
            size = before[axis]
            assert isinstance(size, int)
            expanded[axis] = size
        shape += [size for size in after[group.after.start : group.after.stop] if isinstance(size, int)]
    return np.broadcast_to(array, expanded).reshape(shape)


def _groups(before: Dims, after: Dims) -> list[_Group]:
    start, end = 0, 0
    shorter = min(len(before), len(after))
    while start < shorter and _equal(before[start], after[start]):
        start += 1
    while end < shorter - start and _equal(before[-1 - end], after[-1 - end]):
        end += 1
    first = [_Group(range(axis, axis + 1), range(axis, axis + 1), True) for axis in range(start)]
    last = [
        _Group(range(len(before) - back, len(before) - back + 1), range(len(after) - back, len(after) - back + 1), True)
        for back in range(end, 0, -1)
    ]
    return [*first, *_middle(before, after, (start, start), (len(before) - end, len(after) - end)), *last]


def _middle(before: Dims, after: Dims, start: tuple[int, int], end: tuple[int, int]) -> list[_Group]:
    """Take axes from the side of fewer elements until both sides hold as many."""
    (i, j), (i_end, j_end) = start, end
    groups: list[_Group] = []
    while i < i_end and j < j_end:
        first, second = i, j
        left, right = before[i], after[j]
        i, j = i + 1, j + 1
        while isinstance(left, int) and isinstance(right, int) and left != right:
            following = before[i] if left < right and i < i_end else after[j] if left > right and j < j_end else None
            if not isinstance(following, int):
                left = None
            elif left < right:
                left, i = left * following, i + 1
            else:
                right, j = right * following, j + 1
        if not (isinstance(left, int) and isinstance(right, int)):
            return [*groups, _Group(range(first, i_end), range(second, j_end), False)]
        groups.append(_Group(range(first, i), range(second, j), True))
    return [*groups, _Group(range(i, i_end), range(j, j_end), False)] if i < i_end or j < j_end else groups


def _equal(a: int | str | None, b: int | str | None) -> bool:
    return a is not None and a == b
