"""What constants stand for, where what they hold is that, rounded."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.constants import constant
from onnx_passes.numbers.reals import Reals
from onnx_passes.numbers.surds import Number, Surd
from onnx_passes.ops.semantics.exact_values import exact_value, has_exact_value

_UNITS = {np.dtype(np.float32): (2.0**-24, 2.0**-149), np.dtype(np.float64): (2.0**-53, 2.0**-1074)}
"""How far rounding takes a number of a type, in proportion and at least."""
_MOST_EXACT = 4
"""Numbers of one array that are compared without rounding: that of a root takes a tenth of a millisecond."""


def stands_for(value: ir.Value | None) -> Reals | None:
    """Return the numbers that a constant stands for; nothing if they are not those that it holds, but for rounding."""
    said, held = exact_value(value), constant(value)
    if said is None or held is None or not has_exact_value(value):
        return said
    if held.dtype not in _UNITS:
        return None
    unit, least = _UNITS[held.dtype]
    allowed = np.abs(said.near) * unit * (1 + unit) + said.slack + least
    return said if bool((np.abs(held.astype(np.float64) - said.near) <= allowed).all()) else None


def same_numbers(a: Reals, b: Reals) -> tuple[int, int] | None:
    """Compare two arrays, which are broadcast: all numbers as closely as doubles tell, and some without rounding.

    Returns how many were compared without rounding, and how many there are; nothing if any two differ.
    """
    if bool((np.abs(a.near - b.near) > a.slack + b.slack).any()):
        return None
    shape = np.broadcast_shapes(a.shape, b.shape)
    if a.shape != b.shape:
        a, b = (each.moved(lambda places: np.broadcast_to(places, shape)) for each in (a, b))
    if not a.slack.any() and not b.slack.any():
        return a.size, a.size
    places = range(a.size) if a.size <= _MOST_EXACT else np.linspace(0, a.size - 1, _MOST_EXACT).astype(int).tolist()
    return (len(places), a.size) if all(_equal(a[place], b[place]) for place in places) else None


def _equal(a: Number, b: Number) -> bool:
    # Roots of one number are written alike, so that nothing has to be computed where numbers are the same.
    return (isinstance(a, Surd) and isinstance(b, Surd) and a.terms == b.terms) or a == b
