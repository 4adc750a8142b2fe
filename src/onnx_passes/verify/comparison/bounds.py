"""How much of a bound each element of a result uses up."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onnx_passes.verify.comparison.ulp import Array, Kind, chunks, kind_of


def share_of_bound(
    expected: Array, found: Array, atol: float, rtol: float, rounding: Array | float = 0.0
) -> NDArray[np.float64]:
    """Return ``|found - expected| / (atol + rtol * |expected| + rounding)`` for every element.

    It is infinite where no bound helps: NaN or an infinity against anything else, booleans and strings that differ,
    any difference where the bound is zero. Arrays must be of one type and shape.
    """
    shares, more = np.empty(expected.size), np.broadcast_to(rounding, expected.shape).reshape(-1)
    # In chunks: allocating large temporary arrays costs more than the arithmetic.
    for start, a, b in chunks(expected, found):
        part = slice(start, start + a.size)
        shares[part] = _shares(a, b, atol, rtol, more[part])
    return shares.reshape(expected.shape)


def _shares(expected: Array, found: Array, atol: float, rtol: float, rounding: Array) -> NDArray[np.float64]:
    kind = kind_of(expected.dtype)
    if kind is Kind.STRING or kind is Kind.BOOL:
        return np.where(expected == found, 0.0, np.inf)
    wide = np.complex128 if kind is Kind.COMPLEX else np.float64
    a, b = expected.astype(wide), found.astype(wide)
    with np.errstate(all="ignore"):
        distance = np.abs(b - a)
        share = distance / (atol + rtol * np.abs(a) + rounding)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    apart = ~np.isfinite(a) | ~np.isfinite(b) | ~np.isfinite(share)
    return np.where(same, 0.0, np.where(apart, np.inf, share))
