"""How the results of two sides compare, bit by bit."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

_WORDS = (1, 2, 4, 8)
SIGNS = "zeros may be of another sign, as the pass says"


def disagreement(old: Sequence[np.ndarray], new: Sequence[np.ndarray], ignores: Collection[str]) -> str | None:
    """Say where results differ; all NaN are one. Nothing where they do not, but perhaps in the sign of zeros."""
    for a, b in zip(old, new, strict=True):
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"the results are {a.dtype}{list(a.shape)} and {b.dtype}{list(b.shape)}"
        if has_same_bits(a, b):
            continue
        same = a == b
        if a.dtype.kind == "f":
            same |= np.isnan(a) & np.isnan(b)
        if not same.all():
            at = int(np.argmin(same))
            return f"{a.reshape(-1)[at]} becomes {b.reshape(-1)[at]}"
        if "nsz" not in ignores and signs_differ([a], [b]):
            return "a zero is of another sign"
    return None


def has_same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Tell whether two arrays are of one type and shape and hold the same bits; other objects are never said to."""
    if a is b:
        return True
    if a.dtype != b.dtype or a.shape != b.shape or a.dtype.kind == "O":
        return False
    bits = np.dtype(f"u{a.dtype.itemsize}" if a.dtype.itemsize in _WORDS else "u1")
    left, right = (np.ascontiguousarray(array).reshape(-1).view(bits) for array in (a, b))
    return np.array_equal(left, right)


def signs_differ(old: Sequence[np.ndarray], new: Sequence[np.ndarray]) -> bool:
    """Tell whether equal results differ in the sign of a zero."""
    return any(
        a.dtype.kind == "f" and bool(((np.signbit(a) != np.signbit(b)) & (a == 0)).any())
        for a, b in zip(old, new, strict=True)
    )
