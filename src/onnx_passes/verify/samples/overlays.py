"""Patterns that are laid over drawn values: some of them exchanged, rows made flat."""

from __future__ import annotations

import math

import numpy as np

from onnx_passes.verify.samples.reference import Array

_LEVELS = (0.0, 1.0, 100.0, -1000.0, 0.01)
_NOISES = (0.0, 1e-3, 1e-4, 0.0, 1e-2)
"""Flat rows: zeros, ones that vary a little, large ones that hardly vary, a constant, small ones that vary as much."""


def put_some(array: Array, pool: Array, random: np.random.Generator, *, share: float) -> None:
    """Exchange a share of the elements, one at least, for those of a pool, each in turn."""
    count = max(1, int(array.size * share))
    places = random.permutation(array.size)[:count]
    array.reshape(-1)[places] = np.resize(random.permutation(pool), count)


def flat_rows(array: Array, random: np.random.Generator) -> Array:
    """Make every row, of images every plane, nearly constant, each in a way of its own."""
    rows = math.prod(array.shape[: 1 if array.ndim == 2 else 2]) if array.ndim > 1 else 1
    drawn = array.reshape(rows, -1).astype(np.float64)
    kinds = random.permutation(np.arange(rows) % len(_LEVELS)) if rows > 1 else random.integers(1, 3, size=1)
    flat = np.array(_LEVELS)[kinds, None] + drawn * np.array(_NOISES)[kinds, None]
    return flat.reshape(array.shape)
