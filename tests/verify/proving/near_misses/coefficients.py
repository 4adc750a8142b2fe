"""Near misses of layers that constants were merged into."""

from __future__ import annotations

import numpy as np

from tests.verify.proving.near_misses.pairs import Change, Pair

BEYOND = 1e-5
"""What rounding may do is less: a difference is one if it is more, in parts of the greatest result."""
GENERATOR = np.random.default_rng(0)


def array(*shape: int) -> np.ndarray:
    return GENERATOR.normal(size=shape).astype(np.float32)


def turned(weights: np.ndarray, *axes: int) -> np.ndarray:
    return np.ascontiguousarray(weights.transpose(axes))


W, G, B, M = array(4, 4, 3, 3), array(4), array(4), array(4)
V = GENERATOR.uniform(0.5, 2, 4).astype(np.float32)
FACTOR = G.astype(np.float64) / np.sqrt(V.astype(np.float64) + float(np.float32(1e-5)))
WEIGHTS = (W * FACTOR[:, None, None, None]).astype(np.float32)
BIAS = (B - M * FACTOR).astype(np.float32)
A, S, C = array(4, 4), array(4), array(4)
EVEN = array(4, 4, 2, 2)
ONE_OFF = WEIGHTS.copy()
ONE_OFF[1, 2, 0, 1] *= np.float32(1.001)


def pair(signature: str, before: str, after: str, *changes: Change, **more) -> Pair:
    return Pair(signature, before, after, changes, **more)


PAIRS = (
    pair(
        "float[1,4,8,8] x, float[1,4,8,8] z",
        "a = Conv <pads = [1,1,1,1]> (x, w) y = BatchNormalization(a, g, b, m, v)",
        "y = Conv <pads = [1,1,1,1]> (x, wm, bm)",
        ("pads = [1,1,1,1]", "pads = [0,0,2,2]"),
        ("pads = [1,1,1,1]", "pads = [2,2,2,2], dilations = [2,2]"),
        ("pads = [1,1,1,1]", "pads = [1,1,1,1], dilations = [2,2]"),
        ("pads = [1,1,1,1]", "pads = [1,1,1,1], strides = [2,2]"),
        ("pads = [1,1,1,1]", 'auto_pad = "VALID"'),
        ("(x, wm, bm)", "(z, wm, bm)"),
        ("<pads = [1,1,1,1]>", ""),
        ("(x, wm, bm)", "(x, wm)"),
        ("before:(a, g, b, m, v)", "(a, b, g, m, v)"),
        ("before:(a, g, b, m, v)", "(a, g, m, b, v)"),
        ("before:BatchNormalization(", "BatchNormalization <epsilon = 0.01> ("),
        held={"w": W, "g": G, "b": B, "m": M, "v": V, "wm": WEIGHTS, "bm": BIAS},
        other=(
            ("wm", WEIGHTS * np.float32(1.0001)),
            ("wm", -WEIGHTS),
            ("wm", np.ascontiguousarray(WEIGHTS[::-1])),
            ("wm", turned(WEIGHTS, 0, 1, 3, 2)),
            ("wm", turned(WEIGHTS, 1, 0, 2, 3)),
            ("wm", ONE_OFF),
            ("bm", BIAS + np.float32(1e-3)),
            ("bm", -BIAS),
            ("bm", np.ascontiguousarray(BIAS[::-1])),
            ("bm", B),
        ),
    ),
    # Padding that is left open goes to one end or to the other.
    pair(
        "float[1,4,8,8] x",
        'a = Conv <auto_pad = "SAME_UPPER"> (x, w) y = Mul(a, two)',
        'y = Conv <auto_pad = "SAME_UPPER"> (x, wd)',
        ("SAME_UPPER", "SAME_LOWER"),
        ("before:SAME_UPPER", "SAME_LOWER"),
        ("before:SAME_UPPER", "VALID"),
        held={"w": EVEN, "wd": EVEN * np.float32(2), "two": np.array(2, np.float32)},
        other=(("wd", EVEN),),
    ),
    # A matrix product in all its spellings; square matrices, so that any of them may be turned.
    pair(
        "float[4,4] x",
        "a = Gemm <transB = 1, alpha = 0.5, beta = 2.0> (x, w, c) y = Mul(a, s)",
        "y = Gemm <transB = 1> (x, wm, cm)",
        ("<transB = 1>", ""),
        ("transB = 1", "transB = 1, transA = 1"),
        ("transB = 1", "transB = 1, alpha = 0.5"),
        ("transB = 1", "transB = 1, beta = 2.0"),
        ("before:transB = 1", "transB = 1, transA = 1"),
        ("before:transB = 1", "transB = 0"),
        ("before:alpha = 0.5", "alpha = 0.25"),
        ("before:beta = 2.0", "beta = 1.0"),
        ("before:Mul(a, s)", "Add(a, s)"),
        ("before:Mul(a, s)", "Div(a, s)"),
        held={
            "w": A,
            "c": C,
            "s": S,
            "wm": (A * np.float32(0.5) * S[:, None]).astype(np.float32),
            "cm": (C * np.float32(2) * S).astype(np.float32),
        },
        other=(
            ("wm", (A * np.float32(0.5) * S[None, :]).astype(np.float32)),
            ("cm", (C * np.float32(2)).astype(np.float32)),
        ),
    ),
    pair(
        "float[4,4] x",
        "a = MatMul(x, w) b = Sub(a, c) y = Div(b, s)",
        "a = MatMul(x, wm) y = Add(a, cm)",
        ("Add(a, cm)", "Sub(a, cm)"),
        ("Add(a, cm)", "Identity(a)"),
        ("MatMul(x, wm)", "Mul(x, wm)"),
        ("MatMul(x, wm)", "Add(x, wm)"),
        ("MatMul(x, wm)", "MatMul(wm, x)"),
        ("before:MatMul(x, w)", "Mul(x, w)"),
        ("before:MatMul(x, w)", "PRelu(x, w)"),
        ("before:Sub(a, c)", "Sub(c, a)"),
        ("before:Div(b, s)", "Div(s, b)"),
        ("before:Div(b, s)", "Mul(b, s)"),
        held={
            "w": A,
            "c": C,
            "s": S,
            "wm": (A / S).astype(np.float32),
            "cm": (-C / S).astype(np.float32),
        },
        other=(("wm", (A / S[:, None]).astype(np.float32)), ("wm", np.ascontiguousarray((A / S).T))),
    ),
    pair(
        "float[1,4,5,5] x",
        "a = ConvTranspose(x, w) y = Mul(a, s4)",
        "y = ConvTranspose(x, wm)",
        ("ConvTranspose(x, wm)", "ConvTranspose <strides = [2,2]> (x, wm)"),
        ("ConvTranspose(x, wm)", "ConvTranspose <pads = [1,1,1,1]> (x, wm)"),
        ("ConvTranspose(x, wm)", "Conv <pads = [2,2,2,2]> (x, wm)"),
        held={"w": W, "s4": S.reshape(1, 4, 1, 1), "wm": (W * S[None, :, None, None]).astype(np.float32)},
        other=(("wm", (W * S[:, None, None, None]).astype(np.float32)),),
    ),
    pair(
        "float[1,4,5,5] x",
        "a = ConvTranspose <strides = [2,2]> (x, w) y = Mul(a, s4)",
        "y = ConvTranspose <strides = [2,2]> (x, wm)",
        ("strides = [2,2]", "strides = [2,2], output_padding = [1,1]"),
        ("strides = [2,2]", "strides = [2,2], dilations = [2,2]"),
        ("strides = [2,2]", "strides = [2,2], output_shape = [9,9]"),
        held={"w": W, "s4": S.reshape(1, 4, 1, 1), "wm": (W * S[None, :, None, None]).astype(np.float32)},
    ),
)
LOOKALIKES = (
    # Constants along the rows of a square result, and in groups.
    pair(
        "float[4,4] x",
        "a = MatMul(x, w) y = Add(a, rows)",
        "y = Gemm(x, w, c)",
        held={"w": A, "rows": C.reshape(4, 1), "c": C},
    ),
    pair(
        "float[1,4,5,5] x",
        "a = ConvTranspose <group = 2> (x, w) y = Mul(a, s4)",
        "y = ConvTranspose <group = 2> (x, wm)",
        held={
            "w": W[:, :2].copy(),
            "s4": np.array([1, 2, 1, 2], np.float32).reshape(1, 4, 1, 1),
            "wm": W[:, :2] * np.array([1, 3], np.float32)[None, :, None, None],
        },
    ),
    # What is normalized are rows of the product, of which there are as many as columns.
    pair(
        "float[2,4,4] x",
        "a = MatMul(x, w) y = BatchNormalization(a, g, b, m, v)",
        "a = MatMul(x, wm) y = Add(a, bm)",
        held={"w": A, "g": G, "b": B, "m": M, "v": V, "wm": (A * FACTOR).astype(np.float32), "bm": BIAS},
    ),
    # Square images, along which a constant varies as it may along channels.
    pair(
        "float[1,4,4,4] x",
        "a = Conv(x, w) y = Mul(a, s)",
        "y = Conv(x, wm)",
        held={
            "w": W[:, :, :1, :1].copy(),
            "s": S,
            "wm": (W[:, :, :1, :1] * S[:, None, None, None]).astype(np.float32),
        },
    ),
    # Coefficients of which one is NaN.
    pair(
        "float[4,4] x",
        "a = MatMul(x, w) y = Mul(a, s)",
        "y = MatMul(x, wm)",
        held={"w": A, "s": S, "wm": np.where(np.eye(4) > 0, np.float32(np.nan), A * S).astype(np.float32)},
    ),
)
