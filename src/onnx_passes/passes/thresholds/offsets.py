"""Split integer thresholds into common thresholds and an offset for each element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onnx_passes.datatypes.base import EXACT_IN_FLOAT

_ROUNDS = 64
"""Solutions are found in a few rounds; searches that take longer are given up."""


@dataclass(frozen=True)
class Offsets:
    """The summand of x, and the remaining thresholds; both broadcast against x, thresholds with an extra last axis."""

    added: np.ndarray
    thresholds: np.ndarray


def find_offsets(
    rows: np.ndarray, places: tuple[int, ...], low: np.ndarray, high: np.ndarray, channels: Sequence[int]
) -> Offsets | None:
    """Find integer offsets after which all elements, or all of a channel, have the same thresholds.

    ``rows`` are the thresholds of each element, for integer inputs from ``low`` to ``high``; ``channels`` are the axes
    that may keep separate thresholds.
    """
    wanted = np.clip(np.ceil(np.sort(rows, axis=1)), low[:, None], high[:, None] + 1.0)
    # Thresholds that all integers reach, or none, may lie further outside.
    least = np.where(wanted <= low[:, None], -np.inf, wanted)
    most = np.where(wanted > high[:, None], np.inf, wanted)
    shape = (*places, rows.shape[1])
    for axis in (None, *channels):
        groups = 1 if axis is None else places[axis]
        ends = [_grouped(ends.reshape(shape), axis, groups) for ends in (least, most)]
        found = _solve(*ends)
        if found is not None:
            added, thresholds = found
            if max(np.abs(low).max(), np.abs(high).max()) + np.abs(added).max() > EXACT_IN_FLOAT:
                continue
            return Offsets(*_shaped(added, thresholds, places, axis))
    return None


def _grouped(ends: np.ndarray, axis: int | None, groups: int) -> np.ndarray:
    first = ends if axis is None else np.moveaxis(ends, axis, 0)
    return first.reshape(groups, -1, ends.shape[-1])


def _solve(least: np.ndarray, most: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Find b and t with ``least <= t - b <= most`` for each group, as a shortest-path problem; None if not found."""
    b, t = np.zeros(least.shape[:2]), np.zeros((least.shape[0], least.shape[2]))
    for _ in range(_ROUNDS):
        lower_t = np.minimum(t, (most + b[:, :, None]).min(axis=1))
        lower_b = np.minimum(b, (lower_t[:, None, :] - least).min(axis=2))
        if np.array_equal(lower_t, t) and np.array_equal(lower_b, b):
            middle = np.rint((b.min() + b.max()) / 2)
            return b - middle, t - middle
        b, t = lower_b, lower_t
    return None


def _shaped(
    added: np.ndarray, thresholds: np.ndarray, places: tuple[int, ...], axis: int | None
) -> tuple[np.ndarray, np.ndarray]:
    if axis is None:
        return added.reshape(places), thresholds.reshape(-1)
    others = [size for index, size in enumerate(places) if index != axis]
    moved = np.moveaxis(added.reshape(places[axis], *others), 0, axis)
    return moved, thresholds.reshape(places[axis], *[1] * (len(places) - axis - 1), -1)
