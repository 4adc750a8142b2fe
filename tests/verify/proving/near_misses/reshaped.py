"""Near misses of what keeps the order of elements."""

from __future__ import annotations

import numpy as np

from tests.verify.proving.near_misses.pairs import Change, Pair

CONSTANTS = (
    "int64[3] apart = {0, 3, 2}, int64[2] joined = {0, 6}, int64[2] rest = {0, -1}, int64[2] flat = {-1, 6},"
    " int64[1] vector = {-1}, int64[4] four = {0, 2, 3, 1}, int64[1] last = {3}, int64[1] one = {1},"
    " int64[1] zero = {0}, int64[3] whole = {0, 2, 3}, int64[3] turned = {0, 3, 2}"
)


def pair(signature: str, before: str, after: str, *changes: Change) -> Pair:
    return Pair(signature, before, after, changes, CONSTANTS)


PAIRS = (
    pair(
        "float[N,2,3] x",
        "a = Reshape(x, apart) y = Reshape(a, joined)",
        "y = Reshape(x, joined)",
        ("before:(a, joined)", "(a, apart)"),
        ("y = Reshape(x, joined)", "y = Reshape(x, apart)"),
        ("y = Reshape(x, joined)", "y = Reshape(x, vector)"),
        ("y = Reshape(x, joined)", "y = Unsqueeze(x, one)"),
        ("y = Reshape(x, joined)", "y = Identity(x)"),
        ("y = Reshape(x, joined)", "t = Transpose <perm = [0, 2, 1]> (x) y = Reshape(t, joined)"),
        ("y = Reshape(x, joined)", "n = Neg(x) y = Reshape(n, joined)"),
        ("y = Reshape(x, joined)", "y = Reshape(x, four)"),
    ),
    pair(
        "float[N,2,3] x",
        "y = Flatten <axis = 1> (x)",
        "y = Reshape(x, rest)",
        ("before:axis = 1", "axis = 2"),
        ("before:axis = 1", "axis = 0"),
        ("before:axis = 1", "axis = -1"),
        ("(x, rest)", "(x, vector)"),
        ("(x, rest)", "(x, apart)"),
    ),
    pair(
        "float[N,2,3] x",
        "a = Unsqueeze(x, last) y = Squeeze(a, last)",
        "y = Identity(x)",
        ("before:Squeeze(a, last)", "Identity(a)"),
        ("Identity(x)", "Reshape(x, apart)"),
        ("Identity(x)", "Reshape(x, joined)"),
        ("Identity(x)", "Abs(x)"),
    ),
    pair(
        "float[N,2,3] x, float[N,2,3] z",
        "a = Unsqueeze(x, last) y = Reshape(a, joined)",
        "y = Reshape(x, joined)",
        ("(x, joined)", "(z, joined)"),
        ("(x, joined)", "(x, four)"),
        ("(x, joined)", "(x, whole)"),
        ("(x, joined)", "(x, turned)"),
    ),
)
LOOKALIKES = (
    pair("float[2,2,3] x", "y = Reshape <allowzero = 1> (x, apart)", "y = Reshape(x, apart)"),
    pair("float[0,2,3] x", "y = Reshape(x, rest)", "y = Reshape(x, joined)"),
    pair("float[N,2,3] x", "y = Reshape <allowzero = 1> (x, joined)", "y = Reshape(x, joined)"),
    pair("float[2,2,3] x", "y = Reshape <allowzero = 1> (x, joined)", "y = Reshape(x, joined)"),
    pair("float[2,3,4] x", "a = Transpose <perm = [1, 0, 2]> (x) y = Reshape(a, vector)", "y = Reshape(x, vector)"),
    # Nothing that is of another shape.
    Pair(
        "float[2,0] x",
        "y = Identity(x)",
        "y = Reshape <allowzero = 1> (x, none)",
        held={"none": np.array([0, 0])},
        fed={"x": np.zeros((2, 0), np.float32)},
    ),
    Pair(
        "float[0,N] x",
        "y = Identity(x)",
        "y = Reshape(x, rest)",
        constants=CONSTANTS,
        fed={"x": np.zeros((0, 5), np.float32)},
    ),
)
