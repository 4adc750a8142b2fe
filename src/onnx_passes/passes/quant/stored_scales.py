"""Recover the scale of which floats are multiples, from their values alone, and prove it bit by bit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_MOST = 255
"""The largest multiple that is tried."""
_NEARLY = 1e-4
"""Tolerance for quotients of floats around integers."""
_NEIGHBOURS = 3


@dataclass(frozen=True, eq=False)
class Multiples:
    """``scale * integers``, exactly as computed in single precision."""

    scale: np.ndarray
    integers: np.ndarray


def multiples(values: np.ndarray, axis: int | None) -> Multiples | None:
    """Return values as integers times the largest scale: one for all, or one per index of an axis; None if none."""
    rows = values.reshape(1, -1) if axis is None else np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)
    scales = np.ones(len(rows), np.float32)
    for number, row in enumerate(rows):
        scale = _scale(row)
        if scale is None:
            return None
        scales[number] = scale
    shape = [1] * values.ndim
    if axis is not None:
        shape[axis] = -1
    scale = scales.reshape(shape if axis is not None else ())
    integers = np.rint(values / scale)
    return Multiples(scale, integers) if np.array_equal(integers * scale, values) else None


def _scale(row: np.ndarray) -> np.float32 | None:
    sizes = np.unique(np.abs(row))
    sizes = sizes[sizes > 0].astype(np.float64)
    if sizes.size == 0:
        return np.float32(1)
    if sizes.size > _MOST or not np.isfinite(sizes[-1]):
        return None
    for least in range(1, _MOST + 1):
        steps = sizes * (least / sizes[0])
        if steps[-1] > _MOST + _NEARLY:
            return None
        if np.abs(steps - np.rint(steps)).max() < _NEARLY:
            scale = _proved(sizes.astype(np.float32), np.rint(steps).astype(np.float32))
            if scale is not None:
                return scale
    return None


def _proved(sizes: np.ndarray, steps: np.ndarray) -> np.float32 | None:
    """Return the scale that reproduces all sizes exactly, a few floats around the largest quotient; None if none."""
    scale = np.float32(sizes[-1] / steps[-1])
    for _ in range(_NEIGHBOURS):
        scale = np.nextafter(scale, np.float32(0))
    for _ in range(2 * _NEIGHBOURS + 1):
        if np.array_equal(steps * scale, sizes):
            return scale
        scale = np.nextafter(scale, np.float32(np.inf))
    return None
