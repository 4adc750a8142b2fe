"""Why two results differ: special values, signs of zeros, or rounding; as the flags of fast math that allow it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

ROUNDING = frozenset({"reassoc", "contract"})
"""Flags that allow nothing but other rounding."""


def excuses(x: Array, y: Array, inputs: Sequence[Array]) -> dict[str, Array]:
    """Tell for each pair of different results which flag excuses it; what no flag excuses is in none.

    NaN or infinite inputs are ``nnan`` and ``ninf``; zeros of different sign ``nsz``; results that differ, or overflow
    for inputs that are very large or small, ``reassoc``; NaN or infinity out of ordinary numbers ``nnan``.
    """
    numbers = [array.astype(np.float64) for array in inputs if array.dtype.kind not in "biu"]
    nothing = np.zeros(len(x), bool)
    nan = _any([np.isnan(number) for number in numbers], nothing)
    infinite = _any([np.isinf(number) for number in numbers], nothing) & ~nan
    if x.dtype.kind in "biu":
        return {"nnan": nan, "ninf": infinite}
    plain = ~nan & ~infinite
    ordinary = plain & ~_any([_is_extreme(array) for array in inputs if array.dtype.kind not in "biu"], nothing)
    a, b = x.astype(np.float64), y.astype(np.float64)
    zeros = plain & (a == 0) & (b == 0)
    born = ordinary & ~(np.isfinite(a) & np.isfinite(b))
    return {"nnan": nan | born, "ninf": infinite, "nsz": zeros, "reassoc": plain & ~zeros & ~born}


def needed(found: dict[str, Array]) -> frozenset[str]:
    """Name the flags that excuse anything."""
    return frozenset(flag for flag, where in found.items() if where.any())


def unexcused(found: dict[str, Array], allowed: Collection[str]) -> Array:
    """Tell which differences no allowed flag excuses."""
    return ~_any([where for flag, where in found.items() if flag in allowed], np.zeros_like(found["nnan"]))


def _any(masks: Iterable[Array], start: Array) -> Array:
    found = start
    for mask in masks:
        found = found | mask
    return found


def _is_extreme(array: Array) -> Array:
    """Tell which numbers are so large or small that squares and the like leave the range of their type."""
    wide = np.abs(array.astype(np.float64))
    reach = 2.0**30 if array.dtype.itemsize >= 4 or array.dtype.name == "bfloat16" else 2.0**5
    return np.isfinite(wide) & (wide != 0) & ((wide > reach) | (wide < 1 / reach))
