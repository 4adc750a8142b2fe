"""What is inferred must hold for what ONNX Runtime computes, also where dimensions turn out to be 1."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.passes.annotate.shape_inference import ShapeInference
from tests.passes.tools import Arrays, apply, model_of, run


def array(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return np.ones(shape, dtype)


def assert_holds(model: ir.Model, feeds: Arrays) -> list[ir.Shape | None]:
    """Compare inferred and actual shapes, with the names of input dimensions bound to the actual numbers."""
    for output in model.graph.outputs:
        output.shape = None
    apply(ShapeInference(), model)
    bound: dict[str, int] = {}
    for value in model.graph.inputs:
        for dim, number in zip(value.shape or (), feeds[value.name or ""].shape, strict=True):
            if isinstance(dim, ir.SymbolicDim) and dim.value:
                bound[dim.value] = number
    for output, result in zip(model.graph.outputs, run(model, feeds), strict=True):
        assert output.dtype == ir.DataType.from_numpy(result.dtype)
        if output.shape is None:
            continue
        dims = output.shape.evaluate(bound)
        assert len(dims) == result.ndim
        assert [d if isinstance(d, int) else n for d, n in zip(dims, result.shape, strict=True)] == list(result.shape)
    return [output.shape for output in model.graph.outputs]


@pytest.mark.parametrize(
    ("text", "feeds"),
    [
        ("g (float[N, 3] x, float[M, 3] z) => (float y) { y = Add (x, z) }", {"x": array(1, 3), "z": array(4, 3)}),
        ("g (float[N] x, float[M, 2] z) => (bool y) { y = Less (x, z) }", {"x": array(2), "z": array(4, 2)}),
        (
            "g (bool[K] c, float[N] x, float[M] z) => (float y) { y = Where (c, x, z) }",
            {"c": array(1, dtype=np.bool_), "x": array(1), "z": array(5)},
        ),
        (
            "g (float[N] x, float[M] z, float[K] w) => (float y) { y = Max (x, z, w) }",
            {"x": array(1), "z": array(1), "w": array(3)},
        ),
        (
            "g (float[N, 2, 3] x, float[M, 3, 2] z) => (float y) { y = MatMul (x, z) }",
            {"x": array(1, 2, 3), "z": array(5, 3, 2)},
        ),
        (
            "g (float[N] x, float[M] z) => (float y) { s = Shape (z) y = Expand (x, s) }",
            {"x": array(1), "z": array(5)},
        ),
        (
            "g (float[6] x, int64[2] s) => (float a, float b) { a, b = Split <axis = 0> (x, s) }",
            {"x": array(6), "s": np.array([2, 4])},
        ),
        (
            "g (float[1, N, 1] x, int64[1] s) => (float y) { y = Squeeze (x, s) }",
            {"x": array(1, 4, 1), "s": np.array([2])},
        ),
        ("g (float[N, 3] x) => (float y) { y = Squeeze (x) }", {"x": array(1, 3)}),
        (
            "g (float[2, 3] x, int64[2] a) => (float y) <int64[4] p = {0, 1, 0, 0}> { y = Pad (x, p, \"\", a) }",
            {"x": array(2, 3), "a": np.array([1, 0])},
        ),
        (
            "g (bool c, float[M, N] x) => (float y) <float[3] k = {1, 2, 3}> { y = If (c) <then_branch = t () => (float[] a) { a = Squeeze (x) }, else_branch = e () => (float[3] b) { b = Identity (k) }> }",  # noqa: E501
            {"c": np.array(True), "x": array(1, 5)},
        ),
        (
            "g (float[N, 3] x) => (float y) { y = Unique <axis = 0> (x) }",
            {"x": np.array([[1, 2, 3], [1, 2, 3]], np.float32)},
        ),
        (
            "g (float[1, 1, N, N] x) => (float y) { y = MaxPool <kernel_shape = [1, 1], strides = [2, 2], ceil_mode = 1> (x) }",  # noqa: E501
            {"x": array(1, 1, 2, 2)},
        ),
        (
            "g (float[1, 1, N] x) => (float y) { y = AveragePool <kernel_shape = [2], strides = [3], pads = [1, 1], ceil_mode = 1> (x) }",  # noqa: E501
            {"x": array(1, 1, 5)},
        ),
    ],
    ids=["add", "less", "where", "max", "matmul", "expand", "split", "squeeze", "squeeze all", "pad", "if", "unique",
         "max pool", "average pool"],
)  # fmt: skip
def test_claims_no_more_than_holds(text: str, feeds: Arrays):
    assert_holds(model_of(text), feeds)


@pytest.mark.parametrize(
    ("text", "feeds", "expected"),
    [
        ("g (float[N] x, float[N] z) => (float y) { y = Add (x, z) }", {"x": array(1), "z": array(1)}, "[N]"),
        ("g (float[N] x, float[2] z) => (float y) { y = Add (x, z) }", {"x": array(1), "z": array(2)}, "[2]"),
        ("g (float[N] x) => (float y) <int64[2] s = {4, 1}> { y = Expand (x, s) }", {"x": array(3)}, "[4,N]"),
        ("g (float[6] x) => (float a) <int64[2] s = {2, 4}> { a, b = Split (x, s) }", {"x": array(6)}, "[2]"),
        ("g (float[1, N] x) => (float y) <int64[1] s = {0}> { y = Squeeze (x, s) }", {"x": array(1, 4)}, "[N]"),
        ("g (float[2, N] x) => (float y) <int64[2] p = {1, 2}, int64[1] a = {-2}> { y = Pad (x, p, \"\", a) }", {"x": array(2, 4)}, "[5,N]"),  # noqa: E501
        ("g (float[1, 1, 4] x) => (float y) { y = MaxPool <kernel_shape = [2], ceil_mode = 1> (x) }", {"x": array(1, 1, 4)}, "[1,1,3]"),  # noqa: E501
    ],
)  # fmt: skip
def test_claims_no_less_than_before_where_it_is_certain(text: str, feeds: Arrays, expected: str):
    (shape,) = assert_holds(model_of(text), feeds)
    assert str(shape) == expected


@pytest.mark.parametrize(
    ("text", "feeds", "rank"),
    [
        ("g (int64[3] s) => (float y) { y = ConstantOfShape (s) }", {"s": np.array([2, 1, 4])}, 3),
        ("g (int64[0] s) => (float y) { y = ConstantOfShape (s) }", {"s": np.array([], np.int64)}, 0),
        ("g (float[1, 3] x, int64[2] s) => (float y) { y = Expand (x, s) }", {"x": array(1, 3), "s": np.array([4, 1])}, 2),  # noqa: E501
        ("g (float[N, 3] x, int64[1] s) => (float y) { y = Expand (x, s) }", {"x": array(2, 3), "s": np.array([3])}, 2),
        ("g (float[N] x, int64[3] s) => (float y) { y = Expand (x, s) }", {"x": array(1), "s": np.array([2, 3, 4])}, 3),
        ("g (float x, int64[2] s) => (float y) { y = Expand (x, s) }", {"x": array(), "s": np.array([2, 0])}, 2),
        ("g (float[0, 2] x, int64[2] s) => (float y) { y = Expand (x, s) }", {"x": array(0, 2), "s": np.array([1, 1])}, 2),  # noqa: E501
    ],
)  # fmt: skip
def test_sizes_that_are_not_known_are_as_many_as_the_vector_is_long(text: str, feeds: Arrays, rank: int):
    (shape,) = assert_holds(model_of(text), feeds)
    assert shape is not None
    assert len(shape) == rank


def test_sizes_that_are_not_known_have_names_of_their_own():
    model = model_of("""g (float[1] x, int64[2] s, int64[2] t) => (float y, float z, float a) {
        y = Expand (x, s) z = ConstantOfShape (t) a = Expand (y, t)
    }""")
    shapes = assert_holds(model, {"x": array(1), "s": np.array([2, 1]), "t": np.array([1, 3])})
    named = [dim for shape in shapes if shape is not None for dim in shape]
    assert len(set(named)) == len(named) == 6


def test_sizes_that_are_named_are_those_of_what_is_filled():
    text = "g (float[N, 3] x) => (float y) { s = Shape (x) y = ConstantOfShape (s) }"
    (shape,) = assert_holds(model_of(text), {"x": array(2, 3)})
    assert str(shape) == "[N,3]"


QUANTIZED = """g (uint8[N, 4, 3, 3] x) => (uint8 p, uint8 y) <float s = {0.5}, uint8 z = {0}, uint8[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}> {
  p = com.microsoft.QLinearGlobalAveragePool (x, s, z, s, z)
  f = Flatten (p)
  y = com.microsoft.QGemm (f, s, z, w, s, z, , s, z)
}"""  # noqa: E501


def test_quantized_pooling_and_products_of_onnxruntime():
    model = model_of(QUANTIZED, domains='"com.microsoft" : 1')
    shapes = assert_holds(model, {"x": array(2, 4, 3, 3, dtype=np.uint8)})
    assert [str(shape) for shape in shapes] == ["[N,4,1,1]", "[N,2]"]


@pytest.mark.parametrize(
    ("x", "indices", "expected"),
    [((4,), (3, 1), "[1,N]"), ((2, 4), (3,), "[2,N]"), ((2, 3, 4), (1, 2), "[2,3,2]"), ((4,), (1,), "[1,N]")],
)
def test_features_of_a_vector_are_a_row_as_long_as_there_are_indices(x, indices, expected):
    declared = "N, 1" if indices == (3, 1) else "N" if len(indices) == 1 else "1, 2"
    text = f"""g (float[{", ".join(map(str, x))}] x, int64[{declared}] i) => (float y) {{
        y = ai.onnx.ml.ArrayFeatureExtractor (x, i)
    }}"""
    model = model_of(text, domains='"ai.onnx.ml" : 3')
    (shape,) = assert_holds(model, {"x": array(*x), "i": np.zeros(indices, np.int64)})
    assert str(shape) == expected


def test_a_loop_that_ends_early_gives_fewer_slices():
    model = model_of("""g (float[2] x, bool c) => (float y) <int64 n = {10}> {
      y = Loop (n, c) <body = b (int64 i, bool ci) => (bool co, float[2] s) {
        s = Relu (x) two = Constant <value_int = 2> () co = Less (i, two) }>
    }""")
    assert_holds(model, {"x": array(2), "c": np.array(True)})


def test_a_size_that_arithmetic_makes_a_number_is_one():
    model = model_of("""
        g (float[N, 4, 8] x) => (float y) <int64[2] s = {0, -1}, int64[1] zero = {0}, int64[1] end = {13},
                                           int64[1] one = {1}> {
            flat = Reshape (x, s)
            y = Slice (flat, zero, end, one)
        }
    """)
    model.graph.outputs[0].shape = None
    apply(ShapeInference(), model)
    assert str(model.graph.outputs[0].shape) == "[N,13]"
