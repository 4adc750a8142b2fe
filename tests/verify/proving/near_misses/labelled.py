"""Near misses of what moves elements."""

from __future__ import annotations

import numpy as np

from tests.verify.proving.near_misses.pairs import Change, Pair
from tests.verify.proving.windows import OPSET

CONSTANTS = (
    "int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] four = {4}, int64[1] minus = {-1},"
    " int64[1] six = {6},"
    " int64[1] far = {-9}, int64[4] order = {0, 2, 1, 3}, int64[4] same = {0, 1, 2, 3}, int64[2] grown = {2, 4},"
    " int64[4] border = {0, 1, 0, 1}, int64[2] repeated = {1, 2}, float[1] element = {1}"
)


def pair(signature: str, before: str, after: str, *changes: Change, opset: int = OPSET) -> Pair:
    return Pair(signature, before, after, changes, CONSTANTS, opset=opset)


PAIRS = (
    pair(
        "float[N,M,K] x",
        "a = Transpose <perm = [1, 2, 0]> (x) y = Transpose <perm = [2, 0, 1]> (a)",
        "y = Identity(x)",
        ("before:perm = [2, 0, 1]", "perm = [1, 0, 2]"),
        ("before:perm = [2, 0, 1]", "perm = [0, 1, 2]"),
        ("before:perm = [2, 0, 1]", "perm = [0, 2, 1]"),
        ("before:perm = [2, 0, 1]", "perm = [1, 2, 0]"),
        ("before:perm = [2, 0, 1]", "perm = [2, 1, 0]"),
        ("before: <perm = [2, 0, 1]>", ""),
        ("Identity(x)", "Transpose(x)"),
    ),
    pair(
        "float[2,4] x",
        "y = Slice(x, zero, four, one)",
        "y = Identity(x)",
        ("before:zero", "one"),
        ("before:four", "two"),
        ("before:four", "minus"),
        ("before:(x, zero, four, one)", "(x, zero, one, one)"),
        ("before:(x, zero, four, one)", "(x, four, far, one, minus)"),
        ("before:(x, zero, four, one)", "(x, zero, four, one, two)"),
        ("before:(x, zero, four, one)", "(x, zero, one, zero)"),
    ),
    pair(
        "float[2,4] x",
        "a = Gather <axis = 1> (x, order) y = Gather <axis = 1> (a, order)",
        "y = Gather <axis = 1> (x, same)",
        ("before:(a, order)", "(a, same)"),
        ("same = {0, 1, 2, 3}", "same = {0, 1, 3, 2}"),
        ("same = {0, 1, 2, 3}", "same = {0, 1, 2, 2}"),
        ("same = {0, 1, 2, 3}", "same = {3, 1, 2, 0}"),
    ),
    pair(
        "float[2,4] x, float[2,4] z",
        "a = Concat <axis = 0> (x, z) y = Slice(a, zero, two, zero)",
        "y = Identity(x)",
        ("Identity(x)", "Identity(z)"),
        ("before:(x, z)", "(z, x)"),
        ("before:Slice(a, zero, two, zero)", "Slice(a, one, four, zero)"),
        ("before:Slice(a, zero, two, zero)", "Slice(a, two, four, zero)"),
        ("before:axis = 0", "axis = 1"),
    ),
    pair(
        "float[1,8,2,2] x",
        "a = DepthToSpace <blocksize = 2> (x) y = SpaceToDepth <blocksize = 2> (a)",
        "y = Identity(x)",
        ("before:DepthToSpace <blocksize = 2>", 'DepthToSpace <blocksize = 2, mode = "CRD">'),
        ("before:y = SpaceToDepth <blocksize = 2> (a)", "y = Identity(a)"),
    ),
    pair(
        "float[2,4] x",
        "y = Tile(x, repeated)",
        "y = Concat <axis = 1> (x, x)",
        ("axis = 1", "axis = 0"),
        ("repeated = {1, 2}", "repeated = {2, 1}"),
        ("repeated = {1, 2}", "repeated = {1, 3}"),
    ),
    pair(
        "float[4] x",
        "y = Pad <pads = [0, 1]> (x)",
        "a = Pad <pads = [1, 1]> (x) y = Slice(a, one, six, zero)",
        ("before:pads = [0, 1]", "pads = [1, 0]"),
        ("before:pads = [0, 1]", "pads = [0, 1], value = 2.0"),
        ("before:pads = [0, 1]", 'pads = [0, 1], mode = "edge"'),
        ("pads = [1, 1]", 'pads = [1, 1], mode = "reflect"'),
        opset=10,
    ),
)
LOOKALIKES = (
    # What leaves labels alone, and not all that there may be in their place.
    *(
        pair("float[4,3] x", "y = Transpose(x)", f"t = Transpose(x) y = {operator}")
        for operator in ("Relu(t)", "Abs(t)", "Floor(t)", "Round(t)", "Ceil(t)")
    ),
    *(
        pair("float[4,3] x", f"t = Transpose(x) y = {operator}", "y = Transpose(x)")
        for operator in ("Relu(t)", "Abs(t)")
    ),
    # A constant that looks like the number of an element.
    pair(
        "float[4] x",
        "y = Concat <axis = 0> (x, element)",
        "a = Slice(x, zero, one, zero) y = Concat <axis = 0> (x, a)",
    ),
)
LOOKALIKES += (
    # The same in the type of labels.
    *(
        pair("double[2,3] x", *texts)
        for texts in (
            ("y = Transpose(x)", "t = Transpose(x) y = Relu(t)"),
            ("t = Transpose(x) y = Abs(t)", "y = Transpose(x)"),
        )
    ),
    Pair(
        "double[3] x",
        "y = Concat <axis = 0> (x, x)",
        "y = Concat <axis = 0> (x, first)",
        held={"first": np.arange(1, 4, dtype=np.float64)},
    ),
)
FILLED = pair(
    "float[4] x",
    "y = Pad <pads = [0, 1], value = 2.0> (x)",
    "a = Slice(x, one, two, zero) y = Concat <axis = 0> (x, a)",
    opset=10,
)
"""A number that is filled in must not be taken for an element."""
