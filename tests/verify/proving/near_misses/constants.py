"""Near misses of constants that are computed and compared."""

from __future__ import annotations

import numpy as np

from tests.verify.proving.near_misses.pairs import Change, Pair

CONSTANTS = (
    "float[2] c = {2, 0.5}, float[2] d = {0.5, 2}, float[2] e = {2, 0}, float[2] zeros = {0, 0},"
    " float[2] minus = {-0.0, 0}, int64[3] i = {1, 2, 3}, int64[3] j = {1, 4, 9}, int64[3] k = {3, 2, 1},"
    " float[2,3] m = {1, 2, 3, 4, 5, 6}, float[3,2] t = {1, 4, 2, 5, 3, 6}, float[3,2] r = {1, 2, 3, 4, 5, 6},"
    " double[2] wide = {0.5, 2}, float[2,1] column = {0.5, 2}, int32[3] narrow = {1, 4, 9},"
    " float third = {0.333333343}, float three = {3}, float one = {1}, bool[3] flags = {0, 1, 1}"
)


def pair(before: str, after: str, *changes: Change) -> Pair:
    return Pair("float[2] x", before, after, changes, CONSTANTS)


PAIRS = (
    pair(
        "y = Reciprocal(c)",
        "y = Identity(d)",
        ("Identity(d)", "Identity(c)"),
        ("Identity(d)", "Identity(e)"),
        ("Identity(d)", "Identity(wide)"),
        ("Identity(d)", "Identity(column)"),
        ("d = {0.5, 2}", "d = {0.50000006, 2}"),
        ("d = {0.5, 2}", "d = {0.49999997, 2}"),
        ("d = {0.5, 2}", "d = {2, 0.5}"),
        ("d = {0.5, 2}", "d = {0.5, -2}"),
        ("float[2] d = {0.5, 2}", "float[3] d = {0.5, 2, 2}"),
    ),
    pair(
        "y = Mul(i, i)",
        "y = Identity(j)",
        ("j = {1, 4, 9}", "j = {1, 4, 8}"),
        ("j = {1, 4, 9}", "j = {9, 4, 1}"),
        ("j = {1, 4, 9}", "j = {1, 4, 4294967305}"),
        ("Identity(j)", "Identity(narrow)"),
        ("before:Mul(i, i)", "Mul(i, k)"),
    ),
    pair("y = Abs(minus)", "y = Identity(zeros)", ("(zeros)", "(minus)"), ("zeros = {0, 0}", "zeros = {0, 1e-45}")),
    pair("y = Transpose(m)", "y = Identity(t)", ("(t)", "(r)"), ("(t)", "(m)")),
    pair(
        "y = Div(one, three)",
        "y = Identity(third)",
        ("0.333333343", "0.33333331"),
        ("0.333333343", "0.33333337"),
        ("before:Div(one, three)", "Div(three, one)"),
    ),
    pair(
        "y = Less(i, k)",
        "a = Greater(i, k) b = Equal(i, k) o = Or(a, b) y = Not(o)",
        ("Not(o)", "Not(a)"),
        ("Greater(i, k)", "Greater(k, i)"),
    ),
    Pair(
        "float[2] x",
        "y = Sqrt(n)",
        "y = Identity(m)",
        held={"n": np.array([-1, 4], np.float32), "m": np.array([np.nan, 2], np.float32)},
        other=(("m", np.array([1, 2], np.float32)), ("m", np.array([np.nan, -2], np.float32))),
    ),
)
