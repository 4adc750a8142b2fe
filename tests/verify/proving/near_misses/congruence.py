"""Near misses of equal computations."""

from __future__ import annotations

import numpy as np

from tests.verify.proving.near_misses.pairs import Change, Pair
from tests.verify.proving.windows import Q

CONSTANTS = (
    "float one = {1}, float zero = {0}, float minus = {-0.0}, float bits = {4}, float s = {0.3}, float z = {3},"
    " float[1,1,1,1] more = {1}, float[4] row = {1, 2, 3, 4}, int64[1] first = {0}, int64[1] second = {1},"
    " float close = {0.30000004}, float[2] pair = {0.3, 0.4}"
)
QUANT = f"y = {Q}.Quant <signed = 1> (x, s, zero, bits)"
SHIFTED = f"d = Div(x, s) a = Add(d, z) q = {Q}.Quant <signed = 1> (a, one, zero, bits) b = Sub(q, z) y = Mul(b, s)"
ZEROS = {"x": np.array([0.0, -0.0], np.float32), "w": np.array([-0.0, 0.0], np.float32)}
LARGE = {name: np.array([[number]], np.float32) for name, number in (("x", 1e8), ("w", 1.0), ("v", -1e8))}


def pair(before: str, after: str, *changes: Change, signature: str = "float[2,3,4] x", **more) -> Pair:
    return Pair(signature, before, after, changes, CONSTANTS, **more)


PAIRS = (
    pair(
        QUANT,
        f"d = Div(x, s) q = {Q}.Quant <signed = 1> (d, one, zero, bits) y = Mul(q, s)",
        ("Mul(q, s)", "Mul(q, z)"),
        ("Div(x, s)", "Mul(x, s)"),
        ("signed = 1", "signed = 0"),
        ("(d, one, zero, bits)", "(d, one, one, bits)"),
        ("(d, one, zero, bits)", "(d, z, zero, bits)"),
        ("(d, one, zero, bits)", "(d, one, zero, z)"),
        ("<signed = 1>", '<signed = 1, rounding_mode = "FLOOR">'),
        ("<signed = 1>", "<signed = 1, narrow = 1>"),
        ("y = Mul(q, s)", "y = Mul(d, s)"),
    ),
    pair(
        QUANT.replace("zero", "z"),
        SHIFTED,
        ("Sub(q, z)", "Add(q, z)"),
        ("Sub(q, z)", "Sub(q, one)"),
        ("Add(d, z)", "Sub(d, z)"),
        ("Add(d, z)", "Add(d, one)"),
    ),
    # The order of operands.
    pair("y = Sub(x, s)", "y = Sub(x, s)", ("(x, s)", "(s, x)")),
    pair("y = Div(x, s)", "y = Div(x, s)", ("(x, s)", "(s, x)")),
    pair("y = Max(x, w)", "y = Max(x, w)", ("(x, w)", "(w, x)"), signature="float[2] x, float[2] w", fed=ZEROS),
    pair("y = Min(x, w)", "y = Min(x, w)", ("(x, w)", "(w, x)"), signature="float[2] x, float[2] w", fed=ZEROS),
    pair(
        "y = Sum(x, w, v)",
        "y = Sum(x, w, v)",
        ("(x, w, v)", "(x, v, w)"),
        signature="float[1,1] x, float[1,1] w, float[1,1] v",
        fed=LARGE,
    ),
    pair(
        "y = Concat <axis = 0> (x, x, w)",
        "y = Concat <axis = 0> (x, x, w)",
        ("(x, x, w)", "(x, w, x)"),
        signature="float[2] x, float[2] w",
    ),
    pair(
        "y = Add(x, w)",
        "y = Add(w, x)",
        ("Add", "Sub"),
        ("Add", "Mul"),
        ("(w, x)", "(w, w)"),
        signature="float[2] x, float[2] w",
    ),
    # What is left out as neutral.
    pair(
        "a = Mul(x, one) y = Add(a, s)",
        "y = Add(s, x)",
        ("before:Mul(x, one)", "Mul(x, z)"),
        ("before:Mul(x, one)", "Div(one, x)"),
        ("before:Mul(x, one)", "Sub(x, one)"),
        ("before:Mul(x, one)", "Add(x, one)"),
    ),
    pair(
        "a = Add(x, minus) y = Reciprocal(a)",
        "y = Reciprocal(x)",
        ("before:minus", "zero"),
        ("before:Add(x, minus)", "Sub(x, minus)"),
        ("before:Add(x, minus)", "Sub(minus, x)"),
        ("before:Add(x, minus)", "Mul(x, minus)"),
        signature="float[2] x",
        fed={"x": np.array([-0.0, 2.0], np.float32)},
    ),
    pair(
        "a = Mul(x, one) y = Exp(a)",
        "y = Exp(x)",
        ("before:one", "more"),
        ("before:one", "row"),
        ("before:one", "zero"),
    ),
    pair("a = Div(x, one) y = Exp(a)", "y = Exp(x)", ("before:(x, one)", "(one, x)"), ("before:one", "s")),
    pair("a = Sub(x, zero) y = Exp(a)", "y = Exp(x)", ("before:(x, zero)", "(zero, x)"), ("before:zero", "s")),
    pair(
        "a = Cast <to = 1> (x) y = Exp(a)",
        "y = Exp(x)",
        ("before:a = Cast <to = 1> (x)", "b = Cast <to = 6> (x) a = Cast <to = 1> (b)"),
        ("before:a = Cast <to = 1> (x)", "b = Cast <to = 10> (x) a = Cast <to = 1> (b)"),
    ),
    # Attributes and types are part of a computation.
    pair("y = LeakyRelu <alpha = 0.2> (x)", "y = LeakyRelu <alpha = 0.2> (x)", ("0.2", "0.20000002")),
    pair("y = Softmax <axis = 1> (x)", "y = Softmax <axis = 1> (x)", ("axis = 1", "axis = 2"), ("<axis = 1>", "")),
    pair(
        "y = ReduceSum <keepdims = 1> (x, first)",
        "y = ReduceSum <keepdims = 1> (x, first)",
        ("keepdims = 1", "keepdims = 0"),
        ("(x, first)", "(x, second)"),
        ("(x, first)", "(x)"),
        ("ReduceSum", "ReduceMean"),
    ),
    pair(
        "y = Gather <axis = 1> (x, first)",
        "y = Gather <axis = 1> (x, first)",
        ("(x, first)", "(x, second)"),
        ("axis = 1", "axis = 0"),
    ),
    pair("y = Cast <to = 7> (x)", "y = Cast <to = 7> (x)", ("to = 7", "to = 6")),
    pair(
        "s0, s1, s2 = Split <axis = 1, num_outputs = 3> (x) y = Exp(s1)",
        "s0, s1, s2 = Split <axis = 1, num_outputs = 3> (x) y = Exp(s1)",
        ("Exp(s1)", "Exp(s2)"),
    ),
    pair("y = Mul(x, s)", "y = Mul(x, s)", ("Mul(x, s)", "Mul(x, close)")),
    # Zeros that are added before something other than zero.
    pair(
        "a = Add(x, zero) y = Add(a, pair)",
        "y = Add(x, pair)",
        ("pair = {0.3, 0.4}", "pair = {0.3, -0.0}"),
        ("before:Add(x, zero)", "Add(x, one)"),
        signature="float[2] x",
        fed={"x": np.array([-0.0, -0.0], np.float32)},
    ),
)
LOOKALIKES = (
    pair(
        "a = Add(x, zero) b = Reciprocal(a) y = Add(b, s)",
        "b = Reciprocal(x) y = Add(b, s)",
        signature="float[2] x",
        fed={"x": np.array([-0.0, 0.0], np.float32)},
    ),
)
