"""Near misses of what is computed from shapes alone."""

from __future__ import annotations

import numpy as np

from tests.verify.proving.near_misses.pairs import Change, Pair

CONSTANTS = (
    "int64 first = {0}, int64 second = {1}, int64 third = {2}, int64[1] zeros = {0}, int64[1] ones = {1},"
    " int64[1] five = {5}, int64[1] ten = {10}, int64[1] end = {3}, int64[1] two = {2}, float half = {0.5}"
)
SIZE = "s = Shape(x) g = Gather(s, {}) y = Unsqueeze(g, zeros)"


def pair(signature: str, before: str, after: str, *changes: Change) -> Pair:
    return Pair(signature, before, after, changes, CONSTANTS)


PAIRS = (
    pair(
        "float[N,5,K] x",
        SIZE.format("second"),
        "y = Identity(five)",
        ("five = {5}", "five = {4}"),
        ("five = {5}", "five = {-5}"),
        ("Identity(five)", "Identity(ten)"),
        ("before:second", "first"),
        ("before:second", "third"),
        ("before:Shape(x)", "Shape <start = 1> (x)"),
        ("before:Shape(x)", "Shape <start = -1> (x)"),
    ),
    pair(
        "float[N,5] x, float[N] z",
        SIZE.format("first"),
        "s = Shape(z) y = Identity(s)",
        ("before:first", "second"),
        ("Shape(z)", "Shape(x)"),
        ("Identity(s)", "Add(s, ones)"),
        ("Identity(s)", "Mul(s, two)"),
    ),
    # A size that is not known is no number, whatever it is made of.
    pair(
        "float[N,5] x, float[M,5] z",
        "s = Shape(x) l = Cast <to = 7> (s) y = Gather(l, zeros)",
        "s = Shape(x) g = Gather(s, first) y = Unsqueeze(g, zeros)",
        ("Shape(x)", "Shape(z)"),
        ("y = Unsqueeze(g, zeros)", "y = Identity(none)"),
        ("y = Unsqueeze(g, zeros)", "y = Identity(unlikely)"),
        ("y = Unsqueeze(g, zeros)", "y = Identity(after)"),
        ("y = Unsqueeze(g, zeros)", "u = Unsqueeze(g, zeros) y = Cast <to = 6> (u)"),
    ),
    *(
        pair(
            "float[N,5] x, float[M,5] z",
            f"s = Shape(x) l = Cast <to = {to}> (s) y = Gather(l, zeros)",
            f"s = Shape(x) l = Cast <to = {to}> (s) g = Gather(l, first) y = Unsqueeze(g, zeros)",
            ("Shape(x)", "Shape(z)"),
            ("Gather(l, first)", "Gather(l, second)"),
        )
        for to in (1, 6, 11)
    ),
    *(
        pair(
            "float[2,5] x",
            f"s = Shape(x) y = Cast <to = {to}> (s)",
            f"s = Concat <axis = 0> (two, five) y = Cast <to = {to}> (s)",
            ("(two, five)", "(five, two)"),
            (f"Cast <to = {to}> (s)", "Identity(s)"),
        )
        for to in (1, 6, 10)
    ),
    pair(
        "float[N,5,2] x",
        "s = Shape(x) y = Slice(s, ones, end)",
        "y = Concat <axis = 0> (five, two)",
        ("(five, two)", "(two, five)"),
        ("(five, two)", "(five, five)"),
        ("(five, two)", "(five, two, two)"),
        ("before:(s, ones, end)", "(s, zeros, end)"),
        ("before:(s, ones, end)", "(s, ones, two)"),
    ),
    pair(
        "float[N,5] x",
        "s = Shape(x) y = Gather(s, zeros)",
        "s = Shape <end = 1> (x) y = Identity(s)",
        ("end = 1", "end = 2"),
        ("end = 1", "end = -2"),
        ("end = 1", "start = 1"),
    ),
)
SIZES_NOT_KNOWN = (
    ("float[?,5] x, float[?,5] z", "s = Shape(x) y = Gather(s, zeros)", "s = Shape(z) y = Gather(s, zeros)"),
    ("float[N] x", "y = Shape(x)", "y = Identity(unlikely)"),
    ("float[N] x", "s = Shape(x) y = Slice(table, zeros, s, zeros)", "y = Identity(table)"),
    ("float[N] x", "s = Shape(x) a = Cast <to = 6> (s) y = Cast <to = 7> (a)", "y = Shape(x)"),
    ("float[N] x", "s = Shape(x) a = Cast <to = 1> (s) y = Cast <to = 7> (a)", "y = Shape(x)"),
    ("float[N] x", "s = Shape(x) y = Cast <to = 6> (s)", "y = Cast <to = 6> (held)"),
    ("float[N] x", "s = Shape(x) y = Cast <to = 1> (s)", "y = Cast <to = 1> (half)"),
    ("float[N] x", "s = Shape(x) y = Cast <to = 6> (s)", "y = Cast <to = 6> (zeros)"),
    ("float[N] x", "s = Shape(x) y = Cast <to = 9> (s)", "y = Cast <to = 9> (ones)"),
    ("float[N] x, float[M] z", "s = Shape(x) y = Cast <to = 1> (s)", "s = Shape(z) y = Cast <to = 1> (s)"),
)
"""Numbers that stand for sizes must not be told apart, or taken for others, by what a type makes of them."""
LOOKALIKES = (
    # Only one side reads nothing but shapes.
    pair("int64[2] x", "y = Shape(x)", "s = Shape(x) z = Slice(x, zeros, ones) y = Max(s, z)"),
    pair("int64[2] x", "z = Slice(x, zeros, ones) s = Shape(x) y = Max(s, z)", "y = Shape(x)"),
    # A constant that looks like a size that is not known.
    Pair(
        "float[N] x",
        "y = Shape(x)",
        "s = Shape(x) e = Slice(s, zeros, zeros) y = Concat <axis = 0> (e, placeholder)",
        constants=CONSTANTS,
        held={"placeholder": np.array([2**40])},
        fed={"x": np.zeros(3, np.float32)},
    ),
    # What is beyond a table wherever it begins.
    Pair(
        "float[N] x, float[M] z",
        "s = Shape(x) y = Slice(table, s, ten)",
        "s = Shape(z) y = Slice(table, s, ten)",
        constants=CONSTANTS,
        held={"table": np.arange(9)},
        fed={"x": np.zeros(1, np.float32), "z": np.zeros(2, np.float32)},
    ),
)
