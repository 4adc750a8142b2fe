"""Why two results differ: special values, signs of zeros, or rounding; as the flags of fast math that allow it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

ROUNDING = frozenset({"reassoc", "contract"})
"""Flags that allow nothing but other rounding."""


def excuses(x: Array, y: Array, inputs: Sequence[Array]) -> dict[str, Array]:
    """Return by flag which pairs of different results it excuses; unexcused differences are in none.

    NaN or infinite inputs are ``nnan`` and ``ninf``, and so are results out of ordinary numbers; zeros of different
    sign are ``nsz``; results that differ, or overflow for inputs that are very large or small, ``reassoc``.
    """
    with np.errstate(all="ignore"):
        floats = [array for array in inputs if array.dtype.kind not in "biu"]
        numbers = [array.astype(np.float64) for array in floats]
        a, b = (x.astype(np.float64), y.astype(np.float64)) if x.dtype.kind not in "biu" else (None, None)
    nothing = np.zeros(len(x), bool)
    nan = _any([np.isnan(number) for number in numbers], nothing)
    infinite = _any([np.isinf(number) for number in numbers], nothing) & ~nan
    if a is None or b is None:
        return {"nnan": nan, "ninf": infinite}
    extreme = _any([_is_extreme(array) for array in floats], nothing)
    plain = ~nan & ~infinite
    zeros = plain & (a == 0) & (b == 0)
    born = plain & ~extreme & ~(np.isfinite(a) & np.isfinite(b))
    # Beside infinities, what overflows is no matter of theirs.
    invalid = np.isnan(a) | np.isnan(b)
    special = {"nnan": nan | born & invalid, "ninf": infinite & ~extreme | born & ~invalid, "nsz": zeros}
    return {**special, "reassoc": ~_any(special.values(), nothing)}


def needed(found: dict[str, Array]) -> frozenset[str]:
    """Name the flags that excuse anything."""
    return frozenset(flag for flag, where in found.items() if where.any())


def unexcused(found: dict[str, Array], allowed: Collection[str]) -> Array:
    """Return which differences no allowed flag excuses."""
    return ~_any([where for flag, where in found.items() if flag in allowed], np.zeros_like(found["nnan"]))


def _any(masks: Iterable[Array], start: Array) -> Array:
    found = start
    for mask in masks:
        found = found | mask
    return found


def _is_extreme(array: Array) -> Array:
    """Return which numbers are so large or small that squares and the like leave the range of their type."""
    with np.errstate(all="ignore"):
        wide = np.abs(array.astype(np.float64))
    reach = 2.0**30 if array.dtype.itemsize >= 4 or array.dtype.name == "bfloat16" else 2.0**9
    return np.isfinite(wide) & (wide != 0) & ((wide > reach) | (wide < 1 / reach))
