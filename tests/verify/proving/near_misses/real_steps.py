"""Near misses of thresholds that stand for real numbers."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from tests.verify.proving.near_misses.pairs import Change, Pair
from tests.verify.proving.windows import Q

CONSTANTS = (
    "float one = {1}, float zero = {0}, float bits = {8}, float two = {2}, float half = {0.5}, float three = {3}"
)
INTEGERS = f"q = {Q}.Quant <signed = 1, narrow = 0> (x, one, zero, bits)"
TAIL = f"a = Mul(q, s) y = {Q}.Quant <signed = 0, narrow = 0> (a, one, zero, two)"
COUNT = f'y = {Q}.MultiThreshold <data_layout = "NC"> (q, t)'
TENTH, FIFTH = np.array(0.1, np.float32), np.array(0.3, np.float32)


def first(scale: np.ndarray) -> np.ndarray:
    """Return the first integers that are rounded to 1, 2 and 3 when multiplied in real numbers, halves to even."""
    levels = {q: min(max(round(q * Fraction(float(scale))), 0), 3) for q in range(-128, 128)}
    return np.array([[min(q for q, level in levels.items() if level >= wanted) for wanted in (1, 2, 3)]], np.float32)


def off(place: int, by: float) -> tuple[str, np.ndarray]:
    found = first(TENTH)
    found[0, place] += by
    return "t", found


def pair(before: str, after: str, *changes: Change, held, other=()) -> Pair:
    numbers = {"x": np.arange(-150, 150, dtype=np.float32).reshape(100, 3)}
    return Pair("float[100,3] x", before, after, changes, CONSTANTS, INTEGERS, ("nsz",), held, other, numbers)


PAIRS = (
    pair(
        TAIL,
        COUNT,
        ("before:Mul(q, s)", "Div(q, s)"),
        ("before:Mul(q, s)", "Add(q, s)"),
        ("before:a = Mul(q, s)", "b = Mul(q, s) a = Add(b, half)"),
        ("before:signed = 0", "signed = 1"),
        ("before:narrow = 0", 'narrow = 0, rounding_mode = "FLOOR"'),
        ("before:narrow = 0", 'narrow = 0, rounding_mode = "CEIL"'),
        ("before:(a, one, zero, two)", "(a, two, zero, two)"),
        ("before:(a, one, zero, two)", "(a, half, zero, two)"),
        ("before:(a, one, zero, two)", "(a, one, one, two)"),
        ('data_layout = "NC"', 'data_layout = "NC", out_scale = 0.5'),
        ('data_layout = "NC"', 'data_layout = "NC", out_bias = -1.0'),
        held={"s": TENTH, "t": first(TENTH)},
        other=(
            *(off(place, by) for place in range(3) for by in (-1, 1, 2)),
            ("s", -TENTH),
            ("s", FIFTH),
            ("t", first(FIFTH)),
        ),
    ),
    pair(
        f"a = Mul(q, s) b = Sub(a, zero) c = Relu(b) d = Min(c, three) e = Max(d, zero)"
        f" y = {Q}.Quant <signed = 0, narrow = 0> (e, one, zero, two)",
        COUNT,
        ("before:Sub(a, zero)", "Sub(zero, a)"),
        ("before:Sub(a, zero)", "Sub(a, half)"),
        ("before:Min(c, three)", "Max(c, three)"),
        ("before:Min(c, three)", "Min(c, two)"),
        ("before:Max(d, zero)", "Max(d, one)"),
        ("before:Max(d, zero)", "Min(d, zero)"),
        ("before:Relu(b)", "Neg(b)"),
        held={"s": TENTH, "t": first(TENTH)},
    ),
)
LOOKALIKES = (
    # No level at either end, and one between.
    pair(
        f"m = Mul(q, q) n = Neg(m) a = Add(n, two) y = {Q}.Quant <signed = 0, narrow = 0> (a, one, zero, two)",
        COUNT,
        held={"t": np.array([[200, 201, 202]], np.float32)},
    ),
    replace(
        pair(
            "a = Mul(q, s) b = Clip <min = 0.0, max = 1.0> (a)"
            f" y = {Q}.Quant <signed = 0, narrow = 0> (b, one, zero, two)",
            COUNT,
            held={"s": TENTH, "t": first(TENTH)},
        ),
        opset=9,
    ),
)
