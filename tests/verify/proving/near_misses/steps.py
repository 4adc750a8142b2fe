"""Near misses of steps beside monotone functions."""

from __future__ import annotations

import numpy as np

from tests.verify.proving.near_misses.pairs import Change, Pair
from tests.verify.proving.windows import Q

CONSTANTS = (
    "float one = {1}, float zero = {0}, float bits = {8}, float s = {0.1}, float b = {0.3}, float two = {2},"
    " float third = {0.33333334}, float minus = {-1}"
)
INTEGERS = f"q = {Q}.Quant <signed = 1, narrow = 0> (x, one, zero, bits)"
TAIL = f"a = Mul(q, s) c = Add(a, b) r = Relu(c) y = {Q}.Quant <signed = 0, narrow = 0> (r, one, zero, two)"
COUNT = f'y = {Q}.MultiThreshold <data_layout = "NC"> ({{}}, t)'
NUMBERS = {"x": np.arange(-150, 150, dtype=np.float32).reshape(100, 3)}


def _levels() -> np.ndarray:
    q = np.arange(-128, 128, dtype=np.float32)
    levels = np.clip(np.rint(np.maximum(q * np.float32(0.1) + np.float32(0.3), 0)), 0, 3)
    return np.array([[q[levels >= level].min() for level in (1, 2, 3)]], np.float32)


def _first_of(scale: float) -> np.ndarray:
    """Return the first float of which the quotient is rounded to 1, found by trying those near it."""
    near = np.array([0.5 * scale], np.float32).view(np.int32) + np.arange(-40, 40, dtype=np.int32)
    floats = near.view(np.float32)
    return floats[np.rint(floats / np.float32(scale)) >= 1].min().reshape(1, 1)


def _off(array: np.ndarray, place: int, by: float) -> np.ndarray:
    found = array.copy()
    found.reshape(-1)[place] += np.float32(by)
    return found


def _ulp(array: np.ndarray, by: int) -> np.ndarray:
    return (array.view(np.int32) + np.int32(by)).view(np.float32)


ANY = {"x": np.stack(np.meshgrid(*[np.arange(-2, 3)] * 3), axis=-1).reshape(125, 3).astype(np.float32)}
KERNEL = np.array([[1, -2, 3], [0, 1, 2], [-1, 1, 2]], np.float32).reshape(1, 1, 3, 3)
SQUARE, TURNED = np.arange(1, 10, dtype=np.float32).reshape(3, 3), np.array([-1, 1, 1], np.float32)
LEVELS, FIRST = _levels(), _first_of(0.1)
AROUND = {"x": np.stack([_ulp(FIRST, by).reshape(1) for by in range(-3, 4)])}


def pair(before: str, after: str, *changes: Change, **more) -> Pair:
    given = {"signature": "float[100,3] x", "inside": INTEGERS, "ignores": ("nsz",), "fed": NUMBERS, **more}
    return Pair(before=before, after=after, changes=changes, constants=CONSTANTS, **given)


PAIRS = (
    pair(
        TAIL,
        COUNT.format("q"),
        ("before:Mul(q, s)", "Mul(q, third)"),
        ("before:Add(a, b)", "Sub(a, b)"),
        ("before:Relu(c)", "Abs(c)"),
        ("before:signed = 0", "signed = 1"),
        ("before:narrow = 0> (r", 'narrow = 0, rounding_mode = "FLOOR"> (r'),
        ("before:(r, one, zero, two)", "(r, one, zero, one)"),
        ("before:(r, one, zero, two)", "(r, two, zero, two)"),
        ("before:(r, one, zero, two)", "(r, one, one, two)"),
        ('data_layout = "NC"', 'data_layout = "NC", out_scale = 2.0'),
        ('data_layout = "NC"', 'data_layout = "NC", out_bias = 1.0'),
        held={"t": LEVELS},
        other=(
            *(("t", _off(LEVELS, place, by)) for place in range(3) for by in (-1, 1)),
            ("t", LEVELS[:, :2].copy()),
            ("t", np.concatenate([LEVELS, LEVELS[:, 2:]], axis=1)),
        ),
    ),
    pair(
        f"d = Div(x, s) y = {Q}.Quant <signed = 0, narrow = 0> (d, one, zero, one)",
        COUNT.format("x"),
        ("before:Div(x, s)", "Div(x, third)"),
        ("before:Div(x, s)", "Mul(x, s)"),
        signature="float[7,1] x",
        inside="",
        ignores=("nsz", "nnan"),
        fed=AROUND,
        held={"t": FIRST},
        other=(("t", _ulp(FIRST, -1)), ("t", _ulp(FIRST, 1)), ("t", -FIRST)),
    ),
    pair(
        f"m = MatMul(q, w) n = Mul(m, minus) y = {Q}.Quant <signed = 0, narrow = 0> (n, one, zero, two)",
        f'm = MatMul(q, v) y = {Q}.MultiThreshold <data_layout = "NC"> (m, t)',
        ("before:Mul(m, minus)", "Mul(m, one)"),
        signature="float[125,3] x",
        fed=ANY,
        held={
            "w": np.array([[1, -2], [3, 1], [-1, 2]], np.float32),
            "v": -np.array([[1, -2], [3, 1], [-1, 2]], np.float32),
            "t": np.array([[1, 2, 3], [1, 2, 3]], np.float32),
        },
        other=(
            ("v", np.array([[1, -2], [3, 1], [-1, 2]], np.float32)),
            ("v", -np.array([[1, -2], [3, 1], [-1, 1]], np.float32)),
            ("t", np.array([[1, 2, 3], [1, 2, 4]], np.float32)),
            ("t", np.array([[1, 1, 3], [1, 2, 3]], np.float32)),
        ),
    ),
    pair(
        f"z = Mul(x, two) h = {Q}.Quant <signed = 1, narrow = 0> (z, two, zero, bits) y = Div(h, two)",
        f"y = {Q}.Quant <signed = 1, narrow = 0> (x, one, zero, bits)",
        ("(x, one, zero, bits)", "(x, two, zero, bits)"),
        ("narrow = 0", "narrow = 1"),
        ("narrow = 0", 'narrow = 0, rounding_mode = "CEIL"'),
        inside="",
        ignores=("nsz", "nnan", "ninf"),
        fed={"x": np.linspace(-140, 140, 3003, dtype=np.float32).reshape(1001, 3)},
        signature="float[1001,3] x",
    ),
    pair(
        f"m = MatMul(q, w) n = Mul(m, turned) y = {Q}.Quant <signed = 1, narrow = 0> (n, one, zero, two)",
        f"m = MatMul(q, v) y = {Q}.Quant <signed = 1, narrow = 0> (m, one, zero, two)",
        signature="float[125,3] x",
        fed=ANY,
        held={"w": SQUARE, "v": SQUARE * TURNED, "turned": TURNED},
        other=(
            ("v", SQUARE * TURNED[:, None]),
            ("v", SQUARE),
            ("turned", -TURNED),
        ),
    ),
)
LOOKALIKES = (
    *(
        # Levels at both ends of all floats are the same, and those between are not.
        pair(
            f"{before} y = {Q}.Quant <signed = 1, narrow = 0> (e, one, zero, bits)",
            f"{after} y = {Q}.Quant <signed = 1, narrow = 0> (e, one, zero, bits)",
            inside="",
            ignores=("nsz", "nnan", "ninf"),
            fed={"x": np.arange(-100, 500, 2, dtype=np.float32).reshape(100, 3)},
            held={
                "half": np.array(0.5, np.float32),
                "seven": np.array(200, np.float32),
                "far": np.array(300, np.float32),
            },
        )
        for before, after in (
            ("a = Sub(x, far) e = LeakyRelu <alpha = -1.0> (a)", "e = Max(x, seven)"),
            ("a = Sub(x, far) e = PRelu(a, minus)", "e = Max(x, seven)"),
            ("a = Sub(x, far) e = Abs(a)", "e = Max(x, seven)"),
            ("a = Sub(x, far) e = Mul(a, a)", "e = Max(x, seven)"),
            ("a = Sub(x, far) e = Div(one, a)", "a = Relu(x) e = Min(a, zero)"),
            ("a = Sub(x, far) b0 = Neg(a) e = Min(a, b0)", "a = Max(x, seven) e = Neg(a)"),
        )
    ),
    # What is a number at neither end of all floats, and at zero, is one between.
    *(
        pair(
            f"{before} y = {Q}.Quant <signed = 1, narrow = 0> (e, one, zero, bits)",
            f"{after} y = {Q}.Quant <signed = 1, narrow = 0> (e, one, zero, bits)",
            inside="",
            ignores=("nsz", "nnan", "ninf"),
            fed={"x": np.linspace(-4, 4, 3003, dtype=np.float32).reshape(1001, 3)},
            signature="float[1001,3] x",
        )
        for before, after in (
            ("e = Sqrt(x)", "a = Relu(x) e = Sqrt(a)"),
            ("e = Log(x)", "a = Relu(x) e = Log(a)"),
            ("e = Asin(x)", "a = Relu(x) e = Min(a, zero)"),
            ("e = Atanh(x)", "a = Relu(x) e = Min(a, zero)"),
            ("e = Acosh(x)", "a = Max(x, one) e = Acosh(a)"),
            ("e = Acos(x)", "a = Relu(x) b0 = Min(a, zero) e = Add(b0, two)"),
        )
    ),
    # A product of zero and of what is too large for its type.
    pair(
        f"a = Mul(x, two) c = Mul(a, zero) y = {Q}.Quant <signed = 1, narrow = 0> (c, one, zero, bits)",
        f"c = Mul(x, zero) y = {Q}.Quant <signed = 1, narrow = 0> (c, one, zero, bits)",
        inside="",
        ignores=("nsz", "nnan", "ninf"),
        fed={"x": np.full((100, 3), 3e38, np.float32)},
    ),
    # Only infinities tell, and the pass says nothing of these.
    pair(
        f"m = Mul(x, tiny) y = {Q}.Quant <signed = 1, narrow = 0> (m, one, zero, bits)",
        f"a = Min(x, most) m = Mul(a, tiny) y = {Q}.Quant <signed = 1, narrow = 0> (m, one, zero, bits)",
        inside="",
        ignores=("nsz", "nnan"),
        fed={"x": np.full((100, 3), np.inf, np.float32)},
        held={"tiny": np.array(1e-38, np.float32), "most": np.array(np.finfo(np.float32).max)},
    ),
    # One integer tells, wherever it is.
    *(
        pair(
            f"a = Sub(q, k) y = {Q}.Quant <signed = 0, narrow = 0> (a, one, zero, one)",
            f"a = Sub(q, l) y = {Q}.Quant <signed = 0, narrow = 0> (a, one, zero, one)",
            held={"k": np.array(place, np.float32), "l": np.array(place + 1, np.float32)},
        )
        for place in (-128, -127, -126, -65, -64, -3, -2, -1, 0, 1, 2, 3, 62, 63, 64, 124, 125)
    ),
    # Products of other values.
    pair(
        f"m = MatMul(q, w) n = Mul(m, minus) y = {Q}.Quant <signed = 1, narrow = 0> (n, one, zero, two)",
        f"m = MatMul(r, v) y = {Q}.Quant <signed = 1, narrow = 0> (m, one, zero, two)",
        signature="float[125,3] x, float[125,3] z",
        inside=f"{INTEGERS} r = {Q}.Quant <signed = 1, narrow = 0> (z, one, zero, bits)",
        fed={**ANY, "z": ANY["x"][::-1].copy()},
        held={"w": SQUARE, "v": -SQUARE},
    ),
    # Levels beyond the last threshold.
    pair(
        f"d = Div(x, s) y = {Q}.Quant <signed = 0, narrow = 0> (d, one, zero, two)",
        COUNT.format("x"),
        inside="",
        ignores=("nsz", "nnan"),
        held={"t": FIRST},
    ),
    # Products that are not the same but for the sign of channels.
    *(
        pair(
            f"m = Conv {old} n = Mul(m, minus) y = {Q}.Quant <signed = 1, narrow = 0> (n, one, zero, bits)",
            f"m = Conv {new} y = {Q}.Quant <signed = 1, narrow = 0> (m, one, zero, bits)",
            signature="float[1,1,4,4] x",
            fed={"x": np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)},
            held={"w": KERNEL, "v": -KERNEL, "f": np.ones(1, np.float32), "g": np.ones(1, np.float32)},
        )
        for old, new in (
            ("<pads = [1,1,1,1]> (q, w)", "<pads = [0,0,2,2]> (q, v)"),
            ("(q, w, f)", "(q, v, g)"),
            ("<strides = [2,2]> (q, w)", "(q, v)"),
        )
    ),
)
REACHED = "onnx_passes.MultiThreshold({}, t, w)"
HIDDEN = (
    # Numbers at both ends and at zero are counted alike, and NaN between them counts nothing.
    *(
        pair(
            f"{before} {COUNT.format('e')}",
            f"{after} {COUNT.format('e')}",
            inside="",
            ignores=("nsz", "ninf"),
            fed={"x": np.full((100, 3), number, np.float32)},
            held={"t": np.array([[level]], np.float32), "four": np.array(4, np.float32)},
        )
        for before, after, level, number in (
            ("a = Mul(x, two) e = Mul(a, zero)", "a = Mul(x, four) e = Mul(a, zero)", -1, 1.2e38),
            ("a = Sqrt(x) e = Neg(a)", "h = Mul(x, two) a = Sqrt(h) e = Neg(a)", -5, 20),
        )
    ),
    pair(
        f"a = Mul(q, endless) e = Relu(a) {COUNT.format('e')}",
        f"a = Mul(q, two) e = Relu(a) {COUNT.format('e')}",
        held={"t": np.array([[-1]], np.float32), "endless": np.array(np.inf, np.float32)},
    ),
    # Steps up and down again between points that are looked at.
    *(
        pair(
            f"e = Mul({read}, two) y = {REACHED.format('e')}",
            f"e = Mul({read}, one) y = {REACHED.format('e')}",
            inside=inside,
            ignores=("nsz", "nnan", "ninf"),
            fed={"x": np.full((100, 3), 7, np.float32)},
            held={"t": np.array([0, 10], np.float32), "w": np.array([1, -1], np.float32)},
        )
        for read, inside in (("q", INTEGERS), ("x", ""))
    ),
    # Thresholds are not all that a value is read by.
    pair(
        COUNT.format("q"),
        f"{COUNT.format('q').replace('y =', 'h =')} a = Sub(q, fifty) k = Abs(a) d = Sub(one, k) e = Relu(d)"
        " y = Add(h, e)",
        held={"t": np.array([[0]], np.float32), "fifty": np.array(50, np.float32)},
    ),
)
LOOKALIKES += HIDDEN
DIPS = tuple(
    pair(
        f"a = {dips} y = {Q}.Quant <signed = 1, narrow = 0> (a, one, zero, bits)",
        f"a = Relu(x) y = {Q}.Quant <signed = 1, narrow = 0> (a, one, zero, bits)",
        inside="",
        ignores=("nsz", "nnan", "ninf"),
    )
    for dips in (
        "ThresholdedRelu <alpha = -4.0> (x)",
        "LeakyRelu <alpha = -0.5> (x)",
        "Elu <alpha = -3.0> (x)",
        "Selu <alpha = -3.0> (x)",
        "Celu <alpha = -3.0> (x)",
        "PRelu(x, minus)",
        "HardSwish(x)",
        "Mish(x)",
        "Gelu(x)",
        "Shrink <lambd = -1.0> (x)",
        "Mod <fmod = 1> (x, two)",
    )
)
"""What goes down before it goes up may be the same at the ends of all floats."""
STACKED = pair(
    f"m = MatMul(q, w) n = Mul(m, turned) y = {Q}.Quant <signed = 1, narrow = 0> (n, one, zero, two)",
    f"m = MatMul(q, v) y = {Q}.Quant <signed = 1, narrow = 0> (m, one, zero, two)",
    signature="float[125,3] x",
    fed=ANY,
    held={"w": SQUARE[None], "v": (SQUARE * TURNED[:, None])[None], "turned": TURNED},
)
"""Several matrices: what is turned around is no channel, though there are as many."""
