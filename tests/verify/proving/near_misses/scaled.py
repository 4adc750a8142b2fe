"""Near misses of scales that move past integers."""

from __future__ import annotations

import numpy as np

from tests.verify.proving.near_misses.pairs import Change, Pair
from tests.verify.proving.windows import Q

BEYOND = 1e-5
"""What rounding may do is less: a difference is one if it is more, in parts of the greatest result."""
CONSTANTS = (
    "float one = {1}, float zero = {0}, float bits = {8}, float s = {0.5}, float t = {0.25}, float two = {2},"
    " float four = {4}, float half = {0.5}, float eighth = {0.125}, float minus = {-1}, int64[1] last = {1},"
    " int64[2] image = {2, 3}, int64[1] joined = {-1}, float wide = {20}, int64[0] none = {},"
    " float[4] larger = {1, 1, 3, 3}, float third = {0.333333343},"
    " int64[1] first = {0},"
    " int64[2] twice = {2, 1}, float half_of = {14}, float third_of = {11}, float twelve = {12}, float most = {25},"
    " float far = {4194304}, float farther = {8388608}, float huge = {4000000}, float huger = {8000000},"
    " float[8] window = {0, 0, 0, 0, 1, 1, 2, 2}"
)
QUANT = f"q = {Q}.Quant <signed = 1> (x, one, zero, bits)"
BOTH = f"{QUANT} r = {Q}.Quant <signed = 1> (z, one, zero, bits)"
WIDE = f"q = {Q}.Quant <signed = 1> (x, one, zero, wide)"
"""More integers than are tried one by one."""
LARGE = f"{WIDE} h = Cast <to = 11> (q) d = Mul(h, kilo)"
KILO = {"kilo": np.array(1024, np.float64)}
GENERATOR = np.random.default_rng(0)


def integers(*shape: int) -> np.ndarray:
    return GENERATOR.integers(-7, 8, shape).astype(np.float32)


def one_off(array: np.ndarray) -> np.ndarray:
    found = array.copy()
    found.reshape(-1)[3] += 1
    return found


KERNELS, MATRIX = integers(4, 4, 3, 3), integers(3, 3)
ROW = np.array([[0.5, 0.25, 2.0]], np.float32)
IMAGES = {"x": GENERATOR.integers(-100, 100, (1, 4, 8, 8)).astype(np.float32)}
FLAT = {name: GENERATOR.integers(-100, 100, (5, 3)).astype(np.float32) for name in "xz"}


def pair(before: str, after: str, *changes: Change, **more) -> Pair:
    given = {"signature": "float[5,3] x", "inside": QUANT, "ignores": ("nsz", "reassoc"), "fed": {"x": FLAT["x"]}}
    return Pair(before=before, after=after, changes=changes, constants=CONSTANTS, **{**given, **more})


def image(before: str, after: str, *changes: Change, **more) -> Pair:
    return pair(before, after, *changes, **{"signature": "float[1,4,8,8] x", "fed": IMAGES, **more})


def two(before: str, after: str, *changes: Change, **more) -> Pair:
    return pair(before, after, *changes, signature="float[5,3] x, float[5,3] z", inside=BOTH, fed=FLAT, **more)


PAIRS = (
    image(
        "a = Mul(q, s) y = Conv <pads = [1,1,1,1]> (a, w)",
        "a = Conv <pads = [1,1,1,1]> (q, v) y = Mul(a, eighth)",
        ("eighth = {0.125}", "eighth = {0.25}"),
        ("eighth = {0.125}", "eighth = {0.1251}"),
        ("eighth = {0.125}", "eighth = {-0.125}"),
        ("pads = [1,1,1,1]", "pads = [0,0,2,2]"),
        ("pads = [1,1,1,1]", "pads = [2,2,2,2], dilations = [2,2]"),
        ("pads = [1,1,1,1]", "pads = [1,1,1,1], strides = [2,2]"),
        ("pads = [1,1,1,1]", "pads = [1,1,1,1], dilations = [2,2]"),
        ("Mul(a, eighth)", "Div(a, eighth)"),
        ("Mul(a, eighth)", "Add(a, eighth)"),
        ("before:Mul(q, s)", "Add(q, s)"),
        ("before:Mul(q, s)", "Mul(q, t)"),
        inside=f"{QUANT} w = {Q}.Quant <signed = 1> (wf, t, zero, four)",
        held={"wf": KERNELS * np.float32(0.25), "v": KERNELS},
        other=(
            ("v", np.ascontiguousarray(KERNELS.swapaxes(2, 3))),
            ("v", np.ascontiguousarray(KERNELS.swapaxes(0, 1))),
            ("v", one_off(KERNELS)),
            ("v", -KERNELS),
            ("v", KERNELS * np.float32(2)),
        ),
    ),
    pair(
        "a = Mul(q, s) b = Add(a, four) y = MatMul(b, v)",
        "a = MatMul(q, v) b = Mul(a, s) y = Add(b, c)",
        ("Mul(a, s)", "Mul(a, t)"),
        ("Add(b, c)", "Sub(b, c)"),
        ("Add(b, c)", "Identity(b)"),
        ("before:Add(a, four)", "Sub(a, four)"),
        held={"v": MATRIX, "c": (4 * MATRIX.sum(axis=0)).astype(np.float32)},
        other=(
            ("v", np.ascontiguousarray(MATRIX.T)),
            ("c", (4 * MATRIX.sum(axis=1)).astype(np.float32)),
            ("c", (4 * MATRIX.sum(axis=0) + 1).astype(np.float32)),
        ),
    ),
    pair(
        "a = Mul(q, s) y = Gemm <transB = 1, alpha = 2.0> (a, v, c)",
        "y = Gemm <transB = 1> (q, v, c)",
        ("<transB = 1>", ""),
        ("transB = 1", "transB = 1, alpha = 2.0"),
        ("transB = 1", "transB = 1, beta = 2.0"),
        ("(q, v, c)", "(q, v)"),
        ("before:alpha = 2.0", "alpha = 1.0"),
        ("before:alpha = 2.0", "alpha = 2.0, beta = 0.5"),
        held={"v": MATRIX, "c": np.array([1, -2, 3], np.float32)},
    ),
    # The first matrix is turned: only square ones can tell.
    pair(
        "a = Mul(q, s) y = Gemm(a, v)",
        "b = Gemm(q, v) y = Mul(b, s)",
        ("Gemm(q, v)", "Gemm <transA = 1> (q, v)"),
        ("Gemm(q, v)", "Gemm <transB = 1> (q, v)"),
        ("before:Gemm(a, v)", "Gemm <transA = 1> (a, v)"),
        ("Gemm(q, v)", "Gemm(q, q)"),
        ("Gemm(q, v)", "Gemm(v, q)"),
        ("Gemm(q, v)", "MatMul(q, q)"),
        ("before:Gemm(a, v)", "Gemm(q, a)"),
        signature="float[3,3] x",
        fed={"x": FLAT["x"][:3]},
        held={"v": MATRIX},
    ),
    # Scales for each column move where columns stay.
    pair(
        "a = Mul(q, row) y = Neg(a)",
        "a = Neg(q) y = Mul(a, row)",
        ("Neg(q)", "Identity(q)"),
        ("Mul(a, row)", "Mul(a, s)"),
        inside=WIDE,
        held={"row": ROW},
    ),
    two(
        "a = Mul(q, s) b = Mul(r, t) c = Add(a, b) y = Relu(c)",
        "a = Mul(q, two) c = Add(a, r) d = Relu(c) y = Mul(d, t)",
        ("Mul(q, two)", "Mul(q, one)"),
        ("Mul(q, two)", "Mul(q, four)"),
        ("Add(a, r)", "Sub(a, r)"),
        ("Add(a, r)", "Add(q, r)"),
        ("Relu(c)", "Abs(c)"),
        ("Mul(d, t)", "Mul(d, s)"),
        ("before:Mul(r, t)", "Mul(r, s)"),
        ("before:Relu(c)", "Identity(c)"),
    ),
    two(
        "a = Mul(q, s) b = Mul(r, s) y = Max(a, b)",
        "c = Max(q, r) y = Mul(c, s)",
        ("Max(q, r)", "Min(q, r)"),
        ("Max(q, r)", "Max(q, q)"),
        ("Mul(c, s)", "Mul(c, t)"),
        ("before:Mul(r, s)", "Mul(r, t)"),
        ("s = {0.5}", "s = {-0.5}"),
    ),
    two(
        "a = Mul(q, s) b = Mul(r, t) y = Mul(a, b)",
        "c = Mul(q, r) y = Mul(c, eighth)",
        ("Mul(q, r)", "Mul(q, q)"),
        ("Mul(q, r)", "Add(q, r)"),
        ("Mul(c, eighth)", "Mul(c, t)"),
    ),
    two(
        "a = Mul(q, s) b = Mul(r, s) y = Concat <axis = 0> (a, b)",
        "c = Concat <axis = 0> (q, r) y = Mul(c, s)",
        ("(q, r)", "(r, q)"),
        ("axis = 0", "axis = 1"),
        ("before:Mul(r, s)", "Mul(r, t)"),
    ),
    # Parts with scales of their own, which stay where they are.
    two(
        "a = Mul(q, s) b = Mul(r, t) y = Concat <axis = 0> (a, b)",
        "c = Concat <axis = 0> (q, r) y = Mul(c, each)",
        ("(q, r)", "(r, q)"),
        ("before:(a, b)", "(b, a)"),
        ("before:Mul(r, t)", "Mul(r, s)"),
        ("Mul(c, each)", "Mul(c, s)"),
        held={"each": np.array([[0.5]] * 5 + [[0.25]] * 5, np.float32)},
        other=(
            ("each", np.array([[0.25]] * 5 + [[0.5]] * 5, np.float32)),
            ("each", np.array([[0.5]] * 4 + [[0.25]] * 6, np.float32)),
        ),
    ),
    pair(
        "a = Mul(q, s) y = ReduceSum <keepdims = 0> (a, last)",
        "a = ReduceSum <keepdims = 0> (q, last) y = Mul(a, s)",
        ("<keepdims = 0> (q, last)", "<keepdims = 0> (q, first)"),
        ("<keepdims = 0> (q, last)", "(q, last)"),
        ("Mul(a, s)", "Mul(a, t)"),
    ),
    pair(
        "a = Mul(q, s) y = Relu(a)",
        "b = Relu(q) y = Mul(b, s)",
        ("Relu(q)", "Abs(q)"),
        ("Relu(q)", "LeakyRelu(q)"),
        ("s = {0.5}", "s = {-0.5}"),
        inside=WIDE,
    ),
    pair(
        "a = Mul(q, s) y = Clip(a, zero, two)",
        "b = Clip(q, zero, four) y = Mul(b, s)",
        ("(q, zero, four)", "(q, zero, two)"),
        ("(q, zero, four)", "(q, one, four)"),
        ("(q, zero, four)", "(q, zero)"),
        ("before:(a, zero, two)", "(a, zero, one)"),
        ("s = {0.5}", "s = {-0.5}"),
        inside=WIDE,
    ),
    pair(
        "a = Mul(q, s) y = Add(a, t)",
        "a = Mul(q, two) b = Add(a, one) y = Mul(b, t)",
        ("Add(a, one)", "Add(a, two)"),
        ("Add(a, one)", "Sub(a, one)"),
        ("Mul(q, two)", "Mul(q, one)"),
        inside=WIDE,
    ),
    image(
        "a = Mul(q, s) y = AveragePool <kernel_shape = [2,2], strides = [2,2]> (a)",
        "a = AveragePool <kernel_shape = [2,2], strides = [2,2]> (q) y = Mul(a, s)",
        ("kernel_shape = [2,2]", "kernel_shape = [3,3]"),
        ("kernel_shape = [2,2]", "kernel_shape = [2,2], pads = [1,1,0,0]"),
        ("strides = [2,2]", "strides = [1,1]"),
        ("AveragePool", "MaxPool"),
        ("before:kernel_shape = [2,2]", "kernel_shape = [4,2]"),
        (
            "before:kernel_shape = [2,2], strides = [2,2]",
            "kernel_shape = [2,2], strides = [2,2], pads = [1,1,1,1], count_include_pad = 1",
        ),
    ),
    image(
        "a = Mul(q, s) y = ReduceMean(a, image)",
        "a = ReduceSum(q, image) y = Mul(a, c)",
        ("Mul(a, c)", "Mul(a, s)"),
        ("ReduceSum(q, image)", "ReduceSum(q, last)"),
        ("ReduceSum(q, image)", "ReduceMean(q, image)"),
        ("ReduceSum(q, image)", "ReduceSum <keepdims = 0> (q, image)"),
        held={"c": np.array(0.5 / 64, np.float32)},
        other=(("c", np.array(0.5 / 63, np.float32)),),
    ),
    image(
        "a = Mul(q, s) y = MaxPool <kernel_shape = [2,2]> (a)",
        "a = MaxPool <kernel_shape = [2,2]> (q) y = Mul(a, s)",
        ("kernel_shape = [2,2]", "kernel_shape = [2,1]"),
        ("kernel_shape = [2,2]", "kernel_shape = [2,2], strides = [2,2]"),
        ("kernel_shape = [2,2]", "kernel_shape = [2,2], dilations = [2,2]"),
        ("s = {0.5}", "s = {-0.5}"),
    ),
    image(
        "a = Mul(q, s) y = Transpose <perm = [0,2,1,3]> (a)",
        "a = Transpose <perm = [0,2,1,3]> (q) y = Mul(a, s)",
        ("perm = [0,2,1,3]", "perm = [0,1,3,2]"),
        ("perm = [0,2,1,3]", "perm = [0,3,2,1]"),
        ("Mul(a, s)", "Mul(a, t)"),
    ),
    # Scales for each channel go where their channels go.
    image(
        "a = Mul(q, by) y = Transpose <perm = [0,2,1,3]> (a)",
        "a = Transpose <perm = [0,2,1,3]> (q) y = Mul(a, turned)",
        ("Mul(a, turned)", "Mul(a, s)"),
        held={
            "by": np.array([1, 2, 4, 8], np.float32).reshape(1, 4, 1, 1),
            "turned": np.array([1, 2, 4, 8], np.float32).reshape(1, 1, 4, 1),
        },
        other=(
            ("turned", np.array([8, 4, 2, 1], np.float32).reshape(1, 1, 4, 1)),
            ("turned", np.array([1, 2, 4, 4], np.float32).reshape(1, 1, 4, 1)),
            ("by", np.array([2, 1, 4, 8], np.float32).reshape(1, 4, 1, 1)),
        ),
    ),
    image(
        "a = Mul(q, by) y = BatchNormalization(a, g, b, m, v)",
        "a = Mul(q, f) y = Add(a, c)",
        ("Add(a, c)", "Sub(a, c)"),
        ("Add(a, c)", "Identity(a)"),
        ("before:(a, g, b, m, v)", "(a, g, m, b, v)"),
        ("before:BatchNormalization(", "BatchNormalization <epsilon = 0.5> ("),
        held={
            "by": np.array(2, np.float32),
            "g": np.array([1, -2, 3, 4], np.float32),
            "b": np.array([1, 2, 3, 4], np.float32),
            "m": np.array([4, 3, 2, 5], np.float32),
            "v": np.array([1, 4, 4, 1], np.float32),
            "f": (2 * np.array([1, -2, 3, 4]) / np.sqrt(np.array([1, 4, 4, 1]) + 1e-5))
            .astype(np.float32)
            .reshape(1, 4, 1, 1),
            "c": (
                np.array([1, 2, 3, 4])
                - np.array([4, 3, 2, 5]) * np.array([1, -2, 3, 4]) / np.sqrt(np.array([1, 4, 4, 1]) + 1e-5)
            )
            .astype(np.float32)
            .reshape(1, 4, 1, 1),
        },
        other=(("v", np.array([1, 4, 1, 4], np.float32)), ("g", np.array([1, 2, 3, 4], np.float32))),
    ),
    image(
        "a = AveragePool <kernel_shape = [2,2]> (q) y = Mul(a, four)",
        "y = Conv <group = 4> (q, all)",
        ("group = 4", "group = 4, strides = [2,2]"),
        ("group = 4", "group = 4, pads = [1,1,0,0]"),
        ("before:Mul(a, four)", "Mul(a, two)"),
        ("before:kernel_shape = [2,2]", "kernel_shape = [2,2], strides = [2,2]"),
        held={"all": np.ones((4, 1, 2, 2), np.float32)},
        other=(
            # Twice as many channels, another window, another kernel.
            ("all", np.ones((8, 1, 2, 2), np.float32)),
            ("all", np.ones((4, 1, 2, 1), np.float32)),
            ("all", np.ones((4, 1, 2, 2), np.float32) * np.array([1, 1, 1, 2], np.float32).reshape(4, 1, 1, 1)),
        ),
    ),
    pair(
        "a = Add(q, four) b = Mul(a, s) y = ReduceSum(b, last)",
        "a = ReduceSum(q, last) b = Add(a, twelve) y = Mul(b, s)",
        ("twelve = {12}", "twelve = {4}"),
        ("ReduceSum(q, last)", "ReduceMean(q, last)"),
    ),
    # Weights with a scale for each row, which are columns of the product.
    pair(
        "a = Mul(q, s) y = Gemm <transB = 1> (a, w)",
        "a = Gemm <transB = 1> (q, v) y = Mul(a, f)",
        ("<transB = 1> (q, v)", "(q, v)"),
        inside=f"{QUANT} w = {Q}.Quant <signed = 1> (wf, along, zero, bits)",
        held={
            "wf": MATRIX * np.array([[0.25], [0.5], [1]], np.float32),
            "along": np.array([[0.25], [0.5], [1]], np.float32),
            "v": MATRIX,
            "f": np.array([0.125, 0.25, 0.5], np.float32),
        },
        other=(("f", np.array([0.5, 0.25, 0.125], np.float32)),),
    ),
    # Axes that are not given, and what is given in older versions.
    *(
        pair(
            f"a = Mul(q, s) y = ReduceMean {axes}",
            f"a = ReduceSum {axes.replace('(a', '(q')} y = Mul(a, c)",
            ("Mul(a, c)", "Mul(a, s)"),
            held={"c": np.array(0.5 / 15, np.float32)},
        )
        for axes in ("(a)", "(a, none)", "<noop_with_empty_axes = 0> (a, none)")
    ),
    pair(
        "a = Mul(q, s) y = ReduceSum <noop_with_empty_axes = 1> (a, none)",
        "y = Mul(q, s)",
        ("before:noop_with_empty_axes = 1", "noop_with_empty_axes = 0"),
        ("before:, none)", ", last)"),
        inside=WIDE,
    ),
    pair(
        "a = Mul(q, s) y = Clip <min = 0.0, max = 2.0> (a)",
        "a = Clip <min = 0.0, max = 4.0> (q) y = Mul(a, s)",
        ("max = 4.0", "max = 3.0"),
        ("min = 0.0", "min = 1.0"),
        ("min = 0.0, ", ""),
        (", max = 4.0", ""),
        ("before:max = 2.0", "max = 1.5"),
        inside=WIDE,
        opset=9,
    ),
    # Integers that no float holds are rounded once on either side, and then scaled.
    pair(
        "c = Cast <to = 1> (d) a = Mul(c, s) y = Mul(a, s)",
        "c = Cast <to = 1> (d) y = Mul(c, t)",
        ("Mul(c, t)", "Mul(c, s)"),
        ("Mul(c, t)", "Add(c, t)"),
        inside=LARGE,
        held=KILO,
    ),
    image(
        'a = Mul(q, s) y = Resize <mode = "nearest"> (a, , larger)',
        'a = Resize <mode = "nearest"> (q, , larger) y = Mul(a, s)',
        ('mode = "nearest"', 'mode = "linear"'),
        ('mode = "nearest"', 'mode = "nearest", coordinate_transformation_mode = "asymmetric"'),
        ('mode = "nearest"', 'mode = "nearest", nearest_mode = "ceil"'),
        ("Mul(a, s)", "Mul(a, t)"),
    ),
)
LOOKALIKES = (
    # Scales and biases that do not move past what they vary along, or past borders.
    image(
        "a = Mul(q, plane) y = Conv <pads = [1,1,1,1]> (a, v)",
        "a = Conv <pads = [1,1,1,1]> (q, v) y = Mul(a, plane)",
        held={"v": KERNELS, "plane": np.arange(1, 65, dtype=np.float32).reshape(1, 1, 8, 8)},
    ),
    image(
        "a = Add(q, four) y = Conv <pads = [1,1,1,1]> (a, v)",
        "a = Conv <pads = [1,1,1,1]> (q, v) y = Add(a, c)",
        held={"v": KERNELS, "c": (4 * KERNELS.sum(axis=(1, 2, 3))).astype(np.float32).reshape(1, 4, 1, 1)},
    ),
    image(
        'a = Add(q, four) y = Conv <auto_pad = "SAME_UPPER"> (a, v)',
        'a = Conv <auto_pad = "SAME_UPPER"> (q, v) y = Add(a, c)',
        held={"v": KERNELS, "c": (4 * KERNELS.sum(axis=(1, 2, 3))).astype(np.float32).reshape(1, 4, 1, 1)},
    ),
    image(
        "a = Mul(q, s) y = AveragePool <kernel_shape = [2,2], pads = [1,1,1,1]> (a)",
        "a = Conv <group = 4, pads = [1,1,1,1]> (q, all) y = Mul(a, eighth)",
        held={"all": np.ones((4, 1, 2, 2), np.float32)},
    ),
    image(
        "a = Add(q, four) y = AveragePool <kernel_shape = [2,2], pads = [1,1,1,1], count_include_pad = 1> (a)",
        "a = AveragePool <kernel_shape = [2,2], pads = [1,1,1,1], count_include_pad = 1> (q) y = Add(a, four)",
    ),
    image(
        "a = Mul(q, s) y = AveragePool <kernel_shape = [3,3], strides = [2,2], ceil_mode = 1> (a)",
        "a = AveragePool <kernel_shape = [3,3], strides = [2,2]> (q) y = Mul(a, s)",
    ),
    # As many places as there are channels.
    pair(
        "a = Mul(q, plane) y = Conv <group = 4> (a, v)",
        "a = Conv <group = 4> (q, v) y = Mul(a, by)",
        signature="float[1,4,2,2] x",
        fed={"x": IMAGES["x"][:, :, :2, :2].copy()},
        held={
            "v": np.arange(2, 6, dtype=np.float32).reshape(4, 1, 1, 1),
            "plane": np.arange(1, 5, dtype=np.float32).reshape(1, 1, 2, 2),
            "by": np.arange(1, 5, dtype=np.float32).reshape(1, 4, 1, 1),
        },
    ),
    # Other operands, operators, bounds and sizes.
    pair(
        "a = Mul(q, s) y = Gemm <transB = 1> (a, r)",
        "a = Gemm(q, r) y = Mul(a, s)",
        signature="float[3,3] x, float[3,3] z",
        inside=BOTH,
        fed={name: array[:3] for name, array in FLAT.items()},
    ),
    two("a = Mul(q, s) b = Mul(r, s) y = Max(a, b, two)", "c = Max(q, r) y = Mul(c, s)"),
    pair("a = Mul(q, s) y = Max(a, two)", "b = Min(q, four) y = Mul(b, s)", inside=WIDE),
    pair("a = Mul(q, s) y = Max(a, third)", "b = Max(q, third) y = Mul(b, s)", inside=WIDE),
    pair(
        "y = Mul(q, s)",
        "y = Mul(q, large)",
        signature="float[1,3] x",
        inside=WIDE,
        fed={"x": FLAT["x"][:1]},
        held={"large": np.full((5, 3), 0.5, np.float32)},
    ),
    pair("a = Mul(q, s) y = Gather <axis = 1> (a, last)", "b = Gather <axis = 1> (q, first) y = Mul(b, s)"),
    pair(
        "a = Mul(q, s) y = Tile(a, twice)",
        "b = Expand(q, twice) y = Mul(b, s)",
        signature="float[2,3] x",
        fed={"x": FLAT["x"][:2]},
    ),
    pair("a = Sub(four, q) y = Mul(a, s)", "a = Mul(q, s) y = Add(a, two)", inside=WIDE),
    pair(
        "a = Mul(q, mixed) y = Relu(a)",
        "a = Relu(q) y = Mul(a, mixed)",
        inside=WIDE,
        held={"mixed": np.array([1, -1, 2], np.float32)},
    ),
    pair(
        "a = Add(q, steps) y = Relu(a)",
        "a = Add(q, other) y = Relu(a)",
        inside=WIDE,
        held={"steps": np.array([1, 2, 3], np.float32), "other": np.array([1, 2, 4], np.float32)},
    ),
    pair(
        "a = Mul(q, steps) b = Relu(a) y = MatMul(b, v)",
        "b = Relu(q) a = MatMul(b, v) y = Mul(a, one)",
        held={"steps": np.array([1, 2, 4], np.float32), "v": MATRIX},
    ),
    two("a = Mul(q, two) y = Add(a, r)", "a = Mul(q, four) y = Add(a, r)"),
    # What is shifted before it is multiplied.
    two(
        "a = Add(q, steps) y = Mul(a, r)",
        "a = Add(q, other) y = Mul(a, r)",
        held={"steps": np.array([1, 2, 3], np.float32), "other": np.array([1, 2, 4], np.float32)},
    ),
    two("a = Add(q, four) y = Mul(a, r)", "y = Mul(q, r)"),
    pair("a = Mul(q, minus) y = Clip(a, zero)", "b = Clip(q, zero) y = Mul(b, minus)", inside=WIDE),
    # Scales that vary along the sum, and are no multiples.
    pair(
        "a = Mul(q, uneven) y = MatMul(a, v)",
        "b = MatMul(q, v) y = Mul(b, uneven)",
        held={"uneven": np.array([0.5, 0.3, 0.7], np.float32), "v": MATRIX},
    ),
    pair(
        "y = MatMul(q, w)",
        "a = MatMul(q, v) y = Mul(a, along)",
        signature="float[3,3] x",
        fed={"x": FLAT["x"][:3]},
        inside=f"{QUANT} w = {Q}.Quant <signed = 1> (wf, along, zero, bits)",
        held={
            "wf": MATRIX * np.array([[0.25], [0.5], [1]], np.float32),
            "along": np.array([[0.25], [0.5], [1]], np.float32),
            "v": MATRIX,
        },
    ),
    # Weights whose scales vary along the sum.
    pair(
        "y = MatMul(q, w)",
        "a = MatMul(q, v) y = Mul(a, t)",
        inside=f"{QUANT} w = {Q}.Quant <signed = 1> (wf, along, zero, bits)",
        held={
            "wf": MATRIX * np.array([[0.25], [0.5], [1]], np.float32),
            "along": np.array([[0.25], [0.5], [1]], np.float32),
            "v": MATRIX,
        },
    ),
)
PARTIAL = tuple(np.array([[65600], [second], [0]], np.float32) for second in (65600, -65600))
INEXACT = (
    # Sums, partial sums and products that floats do not hold.
    *(pair("a = Mul(q, s) y = MatMul(a, v)", "a = MatMul(q, v) y = Mul(a, s)", held={"v": array}) for array in PARTIAL),
    pair(
        "a = Mul(q, s) y = Mul(a, r)",
        "b = Mul(q, r) y = Mul(b, s)",
        signature="float[5,3] x, float[5,3] z",
        inside=BOTH.replace("bits", "half_of"),
    ),
    pair(
        "a = Mul(q, s) b = Mul(r, s) y = Add(a, b)",
        "c = Add(q, r) y = Mul(c, s)",
        signature="float[5,3] x, float[5,3] z",
        inside=BOTH.replace("bits", "most"),
    ),
    pair(
        "a = Mul(q, s) y = MatMul(a, r)",
        "b = MatMul(q, r) y = Mul(b, s)",
        signature="float[3,30] x, float[30,3] z",
        inside=BOTH.replace("bits", "third_of"),
    ),
    image(
        "a = Mul(q, s) y = AveragePool <kernel_shape = [2,2]> (a)",
        "b = AveragePool <kernel_shape = [2,2]> (q) y = Mul(b, s)",
        inside=f"q = {Q}.Quant <signed = 1> (x, one, zero, most)",
    ),
    pair(
        "a = Mul(q, s) b = Add(a, far) y = MatMul(b, v)",
        "a = Add(q, farther) b = MatMul(a, v) y = Mul(b, s)",
        held={"v": np.ones((3, 1), np.float32)},
    ),
    pair(
        "a = Add(q, far) b = Mul(a, r) y = Mul(b, s)",
        "a = Add(q, far) b = Mul(a, s) y = Mul(b, r)",
        signature="float[5,3] x, float[5,3] z",
        inside=BOTH,
    ),
    # Bounds beyond the integers are integers, too: sums of these are not exact.
    pair(
        "a = Mul(q, s) b = Clip(a, huge) y = ReduceSum(b, last)",
        "a = Clip(q, huger) b = ReduceSum(a, last) y = Mul(b, s)",
    ),
    pair(
        "a = Mul(q, s) b = Max(a, huge) y = ReduceSum(b, last)",
        "a = Max(q, huger) b = ReduceSum(a, last) y = Mul(b, s)",
    ),
    # What was rounded is not added up exactly.
    pair(
        "c = Cast <to = 1> (d) a = Mul(c, third) y = ReduceSum(a, last)",
        "c = Cast <to = 1> (d) a = ReduceSum(c, last) y = Mul(a, third)",
        inside=LARGE,
        held=KILO,
    ),
    # Integers in real numbers, and not in floats.
    pair(
        "a = Mul(q, third) y = MatMul(a, v)",
        "a = MatMul(q, v) y = Mul(a, third)",
        inside=f"i = {Q}.Quant <signed = 1> (x, one, zero, bits) h = Mul(i, tenths) q = Div(h, tenths)",
        held={"v": MATRIX, "tenths": np.array(0.3, np.float32)},
    ),
    # A shift that goes into the integers of a product.
    pair(
        "a = Add(q, far) b = Mul(a, s) y = MatMul(b, r)",
        "a = Add(q, far) b = MatMul(a, r) y = Mul(b, s)",
        signature="float[5,3] x, float[3,5] z",
        inside=BOTH,
    ),
    image(
        'a = Mul(q, third) y = Resize <mode = "linear"> (a, , larger)',
        'a = Resize <mode = "linear"> (q, , larger) y = Mul(a, third)',
    ),
    image(
        'a = Mul(q, s) y = Resize <mode = "nearest", coordinate_transformation_mode = "tf_crop_and_resize",'
        " extrapolation_value = 3.0> (a, window, larger)",
        'a = Resize <mode = "nearest", coordinate_transformation_mode = "tf_crop_and_resize",'
        " extrapolation_value = 3.0> (q, window, larger) y = Mul(a, s)",
    ),
)
"""What computes with numbers between integers, or fills in one that no scale moves past."""
