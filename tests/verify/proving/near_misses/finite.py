"""Near misses of functions of finitely many values."""

from __future__ import annotations

import numpy as np

from tests.verify.proving.near_misses.pairs import Change, Pair
from tests.verify.proving.windows import Q


def _between() -> tuple[float, float]:
    """Return what floats make of ``third · i + tenth`` for an integer, where one rounding would make something else."""
    i = np.arange(-128, 128)
    third, tenth = np.float32(1 / 3), np.float32(0.1)
    floats = i.astype(np.float32) * third + tenth
    once = (i * float(third) + float(tenth)).astype(np.float32)
    place = next(place for place in range(256) if floats[place] not in once and once[place] not in floats)
    return float(floats[place]), float(once[place])


REACHED, NOT_REACHED = _between()
CONSTANTS = (
    "float one = {1}, float zero = {0}, float bits = {8}, float two = {2}, float four = {4}, float last = {127},"
    " float first = {-128}, float near = {-127}, float half = {0.5}, float[3] row = {1, 1, 1},"
    " float[3] other = {1, 1, 2}, float almost = {126}, float hundred = {100}, float[3] caps = {5, 50, 127},"
    " float[1,1,1] cube = {1}, float[3] hundreds = {100, 100, 100}, float third = {0.33333334}, float tenth = {0.1},"
    f" float reached = {{{REACHED!r}}}"
)
INTEGERS = f"q = {Q}.Quant <signed = 1, narrow = 0> (x, one, zero, bits)"


def pair(
    before: str, after: str, *changes: Change, inside: str = INTEGERS, ignores: tuple[str, ...] = ("nsz",)
) -> Pair:
    # All integers, and what is beyond them.
    numbers = np.arange(-300, 300, dtype=np.float32).reshape(200, 3)
    return Pair("float[200,3] x", before, after, changes, CONSTANTS, inside, ignores, fed={"x": numbers})


PAIRS = (
    pair(
        "a = Mul(q, q) y = Relu(a)",
        "a = Abs(q) y = Mul(a, a)",
        ("Abs(q)", "Relu(q)"),
        ("Mul(a, a)", "Mul(a, q)"),
        ("Mul(a, a)", "Add(a, a)"),
        ("before:Mul(q, q)", "Mul(q, two)"),
        ("before:Relu(a)", "Sub(a, one)"),
    ),
    pair(
        "y = Max(q, first)",
        "a = Abs(q) b = Sub(a, q) c = Mul(b, zero) y = Add(q, c)",
        ("zero = {0}", "zero = {1}"),
        ("Add(q, c)", "Add(q, b)"),
        ("before:first", "near"),
    ),
    pair(
        "a = Mul(q, q) b = Sqrt(a) y = Floor(b)",
        "y = Abs(q)",
        ("Abs(q)", "Neg(q)"),
        ("Abs(q)", "Relu(q)"),
        ("before:Mul(q, q)", "Mul(q, two)"),
        ("before:Sqrt(a)", "Identity(a)"),
    ),
    # The ends of a type, and only these.
    pair(
        "a = Abs(q) y = Min(a, last)",
        "a = Neg(q) b = Max(q, a) y = Min(b, last)",
        ("Min(b, last)", "Identity(b)"),
        ("Max(q, a)", "Max(q, zero)"),
        ("before:Min(a, last)", "Identity(a)"),
    ),
    pair(
        "a = Mod <fmod = 1> (q, four) y = Abs(a)",
        "b = Abs(q) y = Mod <fmod = 1> (b, four)",
        ("(b, four)", "(b, two)"),
        ("Abs(q)", "Relu(q)"),
        ("before:Abs(a)", "Identity(a)"),
    ),
    pair(
        "a = Mul(q, row) b = Mul(a, a) y = Sqrt(b)",
        "a = Abs(q) y = Mul(a, row)",
        ("(a, row)", "(a, other)"),
        ("before:(q, row)", "(q, other)"),
        ("Abs(q)", "Relu(q)"),
    ),
    # Every channel has its own integers.
    pair(
        "a = Min(q, caps) b = Mul(a, a) y = Sqrt(b)",
        "y = Abs(q)",
        ("Abs(q)", "Relu(q)"),
        ("before:caps", "row"),
        inside=f"i = {Q}.Quant <signed = 1, narrow = 0> (x, one, zero, bits) q = Min(i, caps)",
    ),
    pair(
        "y = Mul(q, zero)",
        "a = Abs(q) y = Mul(a, zero)",
        ("Mul(a, zero)", "Mul(a, half)"),
        ("Mul(a, zero)", "Add(a, zero)"),
    ),
)
LOOKALIKES = (
    # Only the first or the last integer tells.
    pair("y = Min(q, almost)", "a = Abs(q) b = Sub(a, a) y = Add(q, b)"),
    pair("y = Max(q, near)", "a = Abs(q) b = Sub(a, a) y = Add(q, b)"),
    # The last integers of one channel only.
    pair(
        "y = Min(q, hundred)",
        "a = Abs(q) b = Sub(a, a) y = Add(q, b)",
        inside=f"i = {Q}.Quant <signed = 1, narrow = 0> (x, one, zero, bits) q = Min(i, caps)",
    ),
    # Some channels have more integers than others.
    pair(
        "y = Min(q, hundreds)",
        "a = Abs(q) b = Sub(a, a) c = Add(q, b) y = Mul(c, row)",
        inside=f"i = {Q}.Quant <signed = 1, narrow = 0> (x, one, zero, bits) q = Min(i, caps)",
    ),
    # What is rounded on the way holds other numbers than scale and bias say.
    pair(
        "e = Less(q, reached) y = Cast <to = 1> (e)",
        "e = LessOrEqual(q, reached) y = Cast <to = 1> (e)",
        inside=f"i = {Q}.Quant <signed = 1, narrow = 0> (x, one, zero, bits) p = Mul(i, third) q = Add(p, tenth)",
    ),
    # A constant that makes the result larger, or of more axes.
    pair("y = Mul(q, cube)", "y = Mul(q, one)"),
)
PLACED = pair("y = Tanh(q)", "a = Neg(q) b = Tanh(a) y = Neg(b)")
"""Engines round an element by its place in memory, whatever they make of all numbers in another place."""
SIGNED = pair("y = Mul(q, zero)", "a = Abs(q) y = Mul(a, zero)", ignores=())
"""Only the sign of zeros differs here."""
