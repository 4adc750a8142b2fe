"""Small models on which rules of this kind are known to go wrong: whatever is applied, they compute the same."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from tests.passes.eliminate.tools import feeds_of
from tests.passes.tools import check, model_of, run

_ROUNDING = {"fuse", "inline", "lower", "reorder", "unbroadcast", "simplify"}

ELIMINATED = {
    "absorbed operand was the wider one": "g (int32 x, int32[2,2] y) => (int32[2,2] z) {a = Max (x, y) z = Min (x, a)}",
    "absorbed bits were the wider ones": (
        "g (int8[2] x, int8[3,2] y) => (int8[3,2] z) {a = BitwiseAnd (x, y) z = BitwiseOr (x, a)}"
    ),
    "absorbed truth was the wider one": "g (bool x, bool[3] y) => (bool[3] z) {a = Or (x, y) z = And (a, x)}",
    "exclusive or of the same keeps its shape": "g (int32[2,3] x) => (int32[2,3] y) {y = BitwiseXor (x, x)}",
    "sum with its own negative by a factor": (
        "g (int32[4] x) => (int32[4] y) <int32 m = {-1}> {n = Mul (m, x) y = Add (x, n)}"
    ),
    "expansion of a scalar": "g (float x) => (float[2] y) <int64[1] s = {2}> {y = Expand (x, s)}",
    "expansion to a scalar": "g (float[2,2] x) => (float[2,2] y) <int64[0] s = {}> {y = Expand (x, s)}",
    "sum of magnitudes of one": """g (float[1,1] x) => (float[1] y) <int64[1] a = {0}> {
        n = Neg (x) y = ReduceL1 <keepdims = 0> (n, a)
    }""",
    "norm of one": "g (float[1,1] x) => (float[1] y) <int64[1] a = {0}> {y = ReduceL2 <keepdims = 0> (x, a)}",
    "sum of squares of one": """g (float[1,3] x) => (float[3] y) <int64[1] a = {0}> {
        y = ReduceSumSquare <keepdims = 0> (x, a)
    }""",
    "logarithm of the sum of one": """g (float[1,3] x) => (float[3] y) <int64[1] a = {0}> {
        y = ReduceLogSum <keepdims = 0> (x, a)
    }""",
    "quotient of the same": "g (float[12] x) => (float[12] y) {y = Div (x, x)}",
    "product with its own reciprocal": "g (float[12] x) => (float[12] y) {r = Reciprocal (x) y = Mul (x, r)}",
    "reciprocal of a reciprocal": "g (float[12] x) => (float[12] y) {r = Reciprocal (x) y = Reciprocal (r)}",
    "difference of the same": "g (float[12] x) => (float[12] y) {y = Sub (x, x)}",
    "equal to itself": "g (float[12] x) => (bool[12] y) {y = Equal (x, x)}",
    "product with zero": "g (float[12] x) => (float[12] y) <float z = {0}> {y = Mul (x, z)}",
    "sum with zero": "g (float[12] x) => (float[12] y) <float z = {0}> {y = Add (x, z)}",
    "nested minima of one input": "g (float[12] x) => (float[12] y) {a = Min (x) y = Min (a)}",
    "nested maxima of one input": "g (float[12] x) => (float[12] y) {a = Max (x) b = Min (a) y = Max (b)}",
    "rectified clip below zero": """g (float[12] x) => (float[12] y) <float a = {-5}, float b = {-1}> {
        c = Clip (x, a, b) y = Relu (c)
    }""",
    "clip of a clip elsewhere": """g (float[12] x) => (float[12] y)
        <float a = {0}, float b = {1}, float c = {2}, float d = {3}> {
        m = Clip (x, a, b) y = Clip (m, c, d)
    }""",
    "reshape of a flattened nothing": (
        "g (float[2,2,0] x) => (float[0,4] y) <int64[2] s = {0,4}> {f = Flatten (x) y = Reshape <allowzero = 1> (f, s)}"
    ),
    "copied dimension of a flattened nothing": (
        "g (float[2,2,0] x) => (float[2,0] y) <int64[2] s = {0,0}> {f = Flatten (x) y = Reshape (f, s)}"
    ),
    "flattened nothing": "g (float[2,2,0] x) => (float[2,0] y) {f = Flatten (x) y = Neg (f)}",
    "new axis of nothing": "g (float[0,3] x) => (float[1,0,3] y) <int64[1] a = {0}> {u = Unsqueeze (x, a) y = Neg (u)}",
}
ALGEBRA = {
    "same summand on both sides": """g (int8[12] x, int8[12] y, int8[12] z) => (bool[12] w) {
        a = Add (x, z) b = Add (y, z) w = Less (a, b)
    }""",
    "comparison with an unsigned sum": """g (uint8[12] x, uint8[12] y, uint8[12] z) => (bool[12] w) {
        a = Add (y, z) w = Less (x, a)
    }""",
    "rectified less than zero": "g (float[12] x) => (bool[12] y) <float c = {0}> {r = Relu (x) y = Less (r, c)}",
    "rectified at most minus one": """g (float[12] x) => (bool[12] y) <float c = {-1}> {
        r = Relu (x) y = LessOrEqual (r, c)
    }""",
    "equal to the bound of a clip": """g (float[12] x) => (bool[12] y) <float a = {-1}, float b = {0}, float c = {0}> {
        k = Clip (x, a, b) y = Equal (c, k)
    }""",
    "square less than minus two": "g (float[12] x) => (bool[12] y) <float c = {-2}> {s = Mul (x, x) y = Less (s, c)}",
    "unsigned square": "g (uint8[12] x) => (bool[12] y) <uint8 c = {9}> {s = Mul (x, x) y = Less (s, c)}",
    "logarithm of what has none": "g (float[12] x) => (bool[12] y) <float c = {-2}> {l = Log (x) y = Less (l, c)}",
    "gated less than a matrix": """g (float[3,3] x) => (bool[3,3] y) <float[3,3] c = {-1,0,1,-0.2,-0.3,2,3,0.5,-4}> {
        s = Sigmoid (x) g = Mul (x, s) y = Less (g, c)
    }""",
    "negative of a small integer": "g (int8[12] x) => (bool[12] y) <int8 c = {5}> {n = Neg (x) y = Less (n, c)}",
    "factor of a product of vectors": """g (int32[4] x, int32[4] y) => (int32 z) <int32[1] s = {3}> {
        a = Mul (x, s) z = MatMul (a, y)
    }""",
    "factor on the right of a product of vectors": """g (int32[4] x, int32[4] y) => (int32 z) <int32[1] s = {3}> {
        a = Mul (y, s) z = MatMul (x, a)
    }""",
    "factor of zero": """g (int32[2,3] x, int32[3,2] y) => (int32[2,2] z) <int32 s = {0}> {
        a = Mul (x, s) z = MatMul (a, y)
    }""",
    "factor taken out of a sum with infinities": (
        "g (float[12] x, float[12] y) => (float[12] z) <float c = {2}> {a = Mul (x, c) b = Mul (y, c) z = Add (a, b)}"
    ),
    "huge summand before a product": """g (float[2,3] x, float[3,2] w) => (float[2,2] z) <float c = {1e30}> {
        a = Add (w, c) z = MatMul (x, a)
    }""",
}
MOVED = {
    "selection by a transposed vector": """g (bool[1] c, float[1] x) => (float[1] y) <float[1] z = {0}> {
        t = Transpose <perm = [0]> (c) y = Where (t, x, z)
    }""",
    "magnitude of a transpose": "g (float[2,3] x) => (float[3,2] y) {t = Transpose (x) y = Abs (t)}",
    "clip of a transpose": """g (float[2,3] x) => (float[3,2] y) <float a = {-1}, float b = {2}> {
        t = Transpose (x) y = Clip (t, a, b)
    }""",
    "product of transposed vectors": """g (float[3] x, float[3] y) => (float z) {
        a = Transpose (x) b = Transpose (y) z = MatMul (a, b)
    }""",
    "product of a transpose and a vector": """g (float[3,2] x, float[3] y) => (float[2] z) {
        a = Transpose (x) z = MatMul (a, y)
    }""",
    "scalar that gets an axis": "g (float x) => (float[1] y) <int64[1] s = {1}> {r = Relu (x) y = Reshape (r, s)}",
    "function of a scalar that got an axis": """g (float x) => (float[1] y) <int64[1] s = {1}> {
        r = Reshape (x, s) y = Relu (r)
    }""",
    "empty range of a sum": """g (float[1,1] x, float[1,1] y) => (float[0,1] z) <int64[1] a = {0}, int64[1] b = {0}> {
        s = Add (x, y) z = Slice (s, a, b)
    }""",
    "range along a broadcast axis": """g (float[1,3] x, float[2,1] y) => (float[1,3] z)
        <int64[1] a = {0}, int64[1] b = {1}> {
        s = Add (x, y) z = Slice (s, a, b, a)
    }""",
    "nothing gathered": """g (float[1,3] x, float[3] y) => (float[0,3] z)
        <int64[0] i = {}> {s = Mul (x, y) z = Gather (s, i)}""",
}
LAYERS = {
    "double Gemm": """g (double[2,3] a, double[3,2] b, double[2] c) => (double[2,2] y) {
        y = Gemm <alpha = 0.5, beta = 2.0> (a, b, c)
    }""",
    "normalization of mixed types": """g (float16[2,3] x, float[3] s, float[3] b) => (float16[2,3] y)
        <float[3] m = {0,1,2}, float[3] v = {1,2,3}> {y = BatchNormalization (x, s, b, m, v)}""",
    "convolution and normalization of mixed types": """g (float16[1,1,3,3] x) => (float16[1,1,3,3] y)
        <float16[1,1,1,1] w = {15360}, float[1] s = {2}, float[1] b = {1}, float[1] m = {0}, float[1] v = {1}> {
        c = Conv (x, w) y = BatchNormalization (c, s, b, m, v)
    }""",
    "bias of a higher rank than the product": """g (float[2,3] x) => (float[1,2,2] y)
        <float[3,2] w = {1,2,3,4,5,6}, float[1,1,2] b = {1,2}> {p = MatMul (x, w) y = Add (p, b)}""",
    "bias wider than the product": """g (float[1,3] x) => (float[4,2] y)
        <float[3,2] w = {1,2,3,4,5,6}, float[4,1] b = {1,2,3,4}> {p = MatMul (x, w) y = Add (p, b)}""",
    "bias of a product of integers": """g (int32[2,3] x) => (int32[2,2] y)
        <int32[3,2] w = {1,2,3,4,5,6}, int32[2] b = {1,2}> {p = MatMul (x, w) y = Add (p, b)}""",
    "bias that fits one size of a symbolic axis": """g (float[K,M] x) => (float[A,B] y)
        <float[2,3] w = {1,2,3,4,5,6}, float[2,1] b = {1,2}> {g = Gemm <transA = 1> (x, w) y = Add (g, b)}""",
    "dilated and padded maximum": """g (float[1,1,6,6] x) => (float[1,1,4,4] y) {
        y = MaxPool <kernel_shape = [3,3], dilations = [2,2], pads = [1,1,1,1]> (x)
    }""",
    "maximum with automatic padding": """g (float[1,1,5,5] x) => (float[1,1,3,3] y) {
        y = MaxPool <kernel_shape = [2,2], strides = [2,2], auto_pad = "SAME_UPPER"> (x)
    }""",
    "mean with automatic padding": """g (float[1,1,5,5] x) => (float[1,1,3,3] y) {
        y = AveragePool <kernel_shape = [2,2], strides = [2,2], auto_pad = "SAME_LOWER"> (x)
    }""",
    "convolution in groups without images": """g (float[0,2,4,4] x) => (float[0,2,3,3] y)
        <float[2,1,2,2] w = {1,2,3,4,5,6,7,8}> {y = Conv <group = 2> (x, w)}""",
    "shape from the second axis of a vector": """g (float[2] x) => (int64[0] y) {y = Shape <start = 1> (x)}""",
}
KNOWN = [
    (text, group, id_)
    for models, groups in (
        (ELIMINATED, ("eliminate", "simplify")),
        (ALGEBRA, ("algebraic", "factorize", "simplify")),
        (MOVED, ("reorder", "unbroadcast", "simplify")),
        (LAYERS, ("fuse", "inline", "lower", "simplify")),
    )
    for id_, text in models.items()
    for group in groups
]


def hard_data(model: ir.Model, *, finite: bool) -> dict[str, np.ndarray]:
    """Make data with NaN and infinities, unless only finite numbers count, and the ends of the range of integers."""
    feeds = feeds_of(model)
    for array in feeds.values():
        if array.dtype.kind in "iu" and array.size > 1:
            limits = np.iinfo(array.dtype)
            array.reshape(-1)[:2] = limits.min, limits.max
        elif array.dtype.kind == "f" and finite:
            array[...] = np.clip(np.nan_to_num(array), -9, 9)
    return feeds


def assert_same(model: ir.Model, before: ir.Model, feeds: dict[str, np.ndarray], *, rounding: bool = False) -> None:
    """Compare interface and results; NaN equals NaN, and where nothing may round the sign of zeros counts."""
    for role in ("inputs", "outputs"):
        declared = [[(v.name, v.dtype, v.shape) for v in getattr(m.graph, role)] for m in (model, before)]
        assert role == "outputs" or declared[0] == declared[1]
        assert [item[:2] for item in declared[0]] == [item[:2] for item in declared[1]]
    check(model)
    for found, wanted in zip(run(model, feeds), run(before, feeds), strict=True):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        if rounding and found.dtype.kind == "f":
            np.testing.assert_allclose(found, wanted, rtol=1e-3 if found.itemsize == 2 else 1e-5, atol=1e-5)
        else:
            np.testing.assert_array_equal(found, wanted)
            signs = [np.signbit(array[wanted == wanted]) for array in (found, wanted) if array.dtype.kind == "f"]
            np.testing.assert_array_equal(*(signs or (0, 0)))


@pytest.mark.parametrize(("text", "group"), [item[:2] for item in KNOWN], ids=[f"{id_}-{g}" for _, g, id_ in KNOWN])
def test_known_trap(text: str, group: str) -> None:
    before = model_of(text)
    result = onnx_passes.apply(model_of(text), group, verify=False).model
    feeds = hard_data(before, finite=text in LAYERS.values())
    assert_same(result, before, feeds, rounding=group in _ROUNDING)


@pytest.mark.parametrize("group", ["eliminate", "algebraic", "simplify"])
@pytest.mark.parametrize(
    "node", ["Mul (x, c)", "Div (x, c)", "Add (x, z)", "Sub (x, z)", "Clip (x, z, c)", "Max (x, z)", "Pow (x, c)"]
)
def test_default_of_an_input_is_no_constant(node: str, group: str) -> None:
    text = f"g (float[12] x, float c, float z) => (float[12] y) <float c = {{1}}, float z = {{-0.0}}> {{y = {node}}}"
    before = model_of(text)
    result = onnx_passes.apply(model_of(text), group, verify=False).model
    assert [value.name for value in result.graph.inputs] == ["x", "c", "z"]
    for given in ({}, {"c": np.float32(4), "z": np.float32(-2)}):
        assert_same(result, before, {"x": feeds_of(before)["x"], **{name: np.array(v) for name, v in given.items()}})
