from __future__ import annotations

import numpy as np
import pytest

from onnx_passes.graph.constants import constant
from tests.passes.fuse.tools import applied, outcome, reasons
from tests.passes.tools import model_of, operators, run

PASS = "fuse-reshaped-gemm"
CONSTANT = "int64[3] t = {2, 3, 2}"


def product(
    gemm: str = "Gemm (r, w, c)",
    *,
    x: str = "2,3,4",
    y: str = "2,3,2",
    w: str = "4,2",
    c: str = "[2]",
    target: str = CONSTANT,
    kind: str = "float",
    others: str = "",
) -> str:
    """Multiply rows between two reshapes and add a bias; the second Reshape has a constant target."""
    return f"""g ({kind}[{x}] x, {kind}[{w}] w, {kind}{c} c) => ({kind}[{y}] y{others})
        <int64[2] s = {{-1, 4}}, {target}> {{ r = Reshape (x, s) p = {gemm} y = Reshape (p, t) }}"""


def computed(x: str, *, opset: int = 18, others: str = "") -> str:
    """Multiply rows between two reshapes and add a bias; the target of the second is computed from the sizes of x."""
    unsqueeze = "Unsqueeze <axes = [0]> ({})" if opset < 13 else "Unsqueeze ({}, zeros)"
    return f"""g (float[{x}] x, float[4,2] w, float[2] c) => (float[N,M,2] y{others})
        <int64[2] s = {{-1, 4}}, int64[1] n = {{2}}, int64[1] zeros = {{0}}, int64 i = {{0}}, int64 j = {{1}}> {{
            h = Shape (x) a = Gather (h, i) b = Gather (h, j)
            u = {unsqueeze.format("a")} v = {unsqueeze.format("b")} t = Concat <axis = 0> (u, v, n)
            r = Reshape (x, s) p = Gemm (r, w, c) y = Reshape (p, t)
        }}"""


@pytest.mark.parametrize("c", ["[2]", "[1]", "[1,2]", "[1,1]", ""])
@pytest.mark.parametrize("kind", ["float", "double", "float16"])
def test_bias_along_the_columns(c: str, kind: str):
    assert outcome(PASS, product(c=c, kind=kind)) == ["MatMul", "Add"]


@pytest.mark.parametrize("gemm", ["Gemm (r, w)", "Gemm <beta = 3.0> (r, w)", "Gemm <alpha = 1.0> (r, w, )"])
def test_without_a_bias(gemm: str):
    assert outcome(PASS, product(gemm)) == ["MatMul"]


@pytest.mark.parametrize("opset", [11, 13, 20])
def test_computed_target(opset: int):
    assert outcome(PASS, computed("N,M,4", opset=opset), opset=opset) == ["MatMul", "Add"]


@pytest.mark.parametrize("opset", [11, 13, 20])
def test_rows_that_are_split(opset: int):
    text = computed("N,M,2,2", opset=opset)
    model = applied(PASS, text, opset=opset)
    assert operators(model.graph) == ["Reshape", "MatMul", "Add"]
    assert np.array_equal(constant(model.graph.node(0).inputs[1]), [0, 0, 4])
    random = np.random.default_rng(0)
    for sizes in ((1, 1), (3, 2), (0, 2)):
        shapes = {"x": (*sizes, 2, 2), "w": (4, 2), "c": (2,)}
        feeds = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
        [expected], [found] = run(model_of(text, opset=opset), feeds), run(model, feeds)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6, strict=True)


def test_constant_matrix_is_transposed_at_once():
    text = f"""g (float[2,3,4] x) => (float[2,3,2] y)
        <int64[2] s = {{-1, 4}}, {CONSTANT}, float[2,4] w = {{1, 2, 3, 4, 5, 6, 7, 8}}> {{
            r = Reshape (x, s) p = Gemm <transB = 1> (r, w) y = Reshape (p, t)
        }}"""
    (node,) = applied(PASS, text).graph
    assert node.op_type == "MatMul"
    assert np.array_equal(constant(node.inputs[1]), [[1, 5], [2, 6], [3, 7], [4, 8]])


def test_reshape_that_others_use_stays():
    assert outcome(PASS, product(others=", float[6,4] r")) == ["Reshape", "MatMul", "Add"]


def test_stays_apart_with_the_other_fusions():
    assert outcome("simplify-rules", product()) == ["MatMul", "Add"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (product("Gemm <alpha = 2.0> (r, w, c)"), "has factors, or transposes its rows"),
        (product("Gemm <beta = 0.5> (r, w, c)"), "has factors, or transposes its rows"),
        (product("Gemm <transA = 1> (r, w, c)", w="6,2", y="1,2,4", c="[]", x="2,3,4"), "has factors, or"),
        (product("Gemm <transB = 1> (r, w, c)", w="2,4"), "must be transposed, but is not constant"),
        (product(c="[6,1]"), "the same for all rows"),
        (product(c="[6,2]"), "the same for all rows"),
        (product(c="[N]"), "the same for all rows"),
        (product(y="6,2", target="int64[2] t = {6, 2}"), "the result is a matrix"),
        (product(y="3,2,2", target="int64[3] t = {3, 2, 2}"), "the rows have another shape before"),
        (product(x="2,3,2,2"), "the rows have another shape before"),
        (product(others=", float[6,2] p"), "the product is used elsewhere"),
        (product(w="K,2"), "the rows are empty, or of unknown size"),
        (product(y="2,6,1", target="int64[3] t = {2, 6, 1}"), "the columns of the product are not known to be kept"),
        (computed("N,M,2,2", others=", float[A,4] r"), "the rows have another shape before"),
    ],
)
def test_refuses(text: str, reason: str):
    assert reason in reasons(PASS, text.replace("[] c", " c"))


def test_refuses_to_copy_a_large_matrix():
    text = f"""g (float[2,3,64] x) => (float[2,3,32] y, float[32,64] z)
        <int64[2] s = {{-1, 64}}, int64[3] t = {{2, 3, 32}}, float[32,64] w = {{{", ".join(["0.5"] * 2048)}}}> {{
            r = Reshape (x, s) p = Gemm <transB = 1> (r, w) y = Reshape (p, t) z = Neg (w)
        }}"""
    assert "but is used elsewhere" in reasons(PASS, text)


def test_refuses_integers():
    assert "not of floats" in reasons(PASS, product(kind="int32"))
