"""Part thresholds of integers into those that many elements share, and what is added to each element before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onnx_passes.datatypes.limits import EXACT_IN_FLOAT

_ROUNDS = 64
"""Where there is a solution it is found in a few rounds; what takes longer is taken for one that does not exist."""


@dataclass(frozen=True)
class Offsets:
    """What to add to x, and the thresholds then: both broadcast against x, thresholds with a last axis of their own."""

    added: np.ndarray
    thresholds: np.ndarray


def find_offsets(
    rows: np.ndarray, places: tuple[int, ...], low: np.ndarray, high: np.ndarray, channels: Sequence[int]
) -> Offsets | None:
    """Find integers to add so that all elements have the same thresholds, or all of a channel.

    ``rows`` are the thresholds of each place, which integers from ``low`` to ``high`` come to; ``channels`` are the
    axes that may keep thresholds of their own.
    """
    wanted = np.clip(np.ceil(np.sort(rows, axis=1)), low[:, None], high[:, None] + 1.0)
    # A threshold that all integers reach, or none, may lie further outside.
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
    """Find b and t with ``least <= t - b <= most`` for each group, as one finds shortest paths."""
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
