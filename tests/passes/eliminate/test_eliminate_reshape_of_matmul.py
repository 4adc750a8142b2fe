from __future__ import annotations

import numpy as np
import pytest

from onnx_passes.graph.constants import constant
from onnx_passes.passes.eliminate.reshape_laws import EliminateReshapeOfMatmul
from tests.passes.eliminate.tools import operators, refusals, rewritten

PASS = EliminateReshapeOfMatmul()


def product(x: str, y: str, target: str, *, w: str = "4,2", kind: str = "float", s: str = "-1, 4") -> str:
    """Multiply rows between two reshapes; the second has a constant target."""
    constants = f"int64[{s.count(',') + 1}] s = {{{s}}}, int64[{target.count(',') + 1}] t = {{{target}}}"
    return f"""g ({kind}[{x}] x, {kind}[{w}] w) => ({kind}[{y}] y) <{constants}> {{
        r = Reshape (x, s) p = MatMul (r, w) y = Reshape (p, t)
    }}"""


def computed(x: str, *, y: str = "N,M,2", w: str = "4,2", opset: int = 18, others: str = "") -> str:
    """Multiply rows between two reshapes; the target of the second is computed from the first two sizes of the rows."""
    unsqueeze = "Unsqueeze <axes = [0]> ({})" if opset < 13 else "Unsqueeze ({}, zeros)"
    constants = f"int64[2] s = {{-1, 4}}, int64[1] n = {{{w.split(',')[1]}}}, int64 i = {{0}}, int64 j = {{1}}"
    return f"""g (float[{x}] x, float[{w}] w) => (float[{y}] y{others}) <{constants}, int64[1] zeros = {{0}}> {{
        h = Shape (x) a = Gather (h, i) b = Gather (h, j)
        u = {unsqueeze.format("a")} v = {unsqueeze.format("b")} t = Concat <axis = 0> (u, v, n)
        r = Reshape (x, s) p = MatMul (r, w) y = Reshape (p, t)
    }}"""


@pytest.mark.parametrize("kind", ["float", "double", "float16", "int32", "uint64"])
@pytest.mark.parametrize(
    ("x", "y", "target"),
    [
        ("2,3,4", "2,3,2", "2, 3, 2"),
        ("2,3,4", "2,3,2", "2, -1, 2"),
        ("N,3,4", "N,3,2", "-1, 3, 2"),
        ("1,1,3,4", "1,1,3,2", "1, 1, -1, 2"),
        ("3,1,4", "3,1,2", "0, 1, 2"),
        ("N,1,4", "N,1,2", "0, 1, 2"),
        ("0,3,4", "0,3,2", "0, 3, 2"),
    ],
)
def test_rows_are_multiplied_as_they_are_stacked(x: str, y: str, target: str, kind: str):
    model = rewritten(PASS, product(x, y, target, kind=kind))
    assert operators(model.graph) == ["MatMul"]
    assert [value.name for value in model.graph.node(0).inputs] == ["x", "w"]


def test_zero_copies_the_columns_of_the_product():
    text = product("2,3,4", "2,3,3", "2, 0, 3", w="4,3")
    assert operators(rewritten(PASS, text).graph) == ["MatMul"]
    text = product("3,2,4", "2,3,3", "2, 0, 3", w="4,3")
    assert operators(rewritten(PASS, text).graph) == ["Reshape", "MatMul"]


def test_zero_that_is_meant():
    text = product("2,0,4", "2,0,2", "2, 0, 2").replace("Reshape (p, t)", "Reshape <allowzero = 1> (p, t)")
    assert operators(rewritten(PASS, text).graph) == ["MatMul"]


SIZES = {"2,3,4": (2, 3, 4), "2,3,2,2": (2, 3, 2, 2), "2,6": (2, 6), "A,B,4": (3, 2, 4)}


@pytest.mark.parametrize("opset", [11, 13, 20])
@pytest.mark.parametrize("size", [1, 3])
def test_computed_target(opset: int, size: int):
    feeds = {"x": rows(size, 2, 4), "w": rows(4, 2)}
    model = rewritten(PASS, computed("N,M,4", opset=opset), opset=opset, feeds=feeds)
    assert operators(model.graph)[-1] == "MatMul"
    assert "Reshape" not in operators(model.graph)


@pytest.mark.parametrize("opset", [11, 13, 20])
@pytest.mark.parametrize("sizes", [(1, 1), (2, 5), (0, 3)])
def test_rows_that_are_split_are_put_together_where_they_are_stacked(opset: int, sizes: tuple[int, int]):
    feeds = {"x": rows(*sizes, 2, 2), "w": rows(4, 2)}
    model = rewritten(PASS, computed("N,M,2,2", opset=opset), opset=opset, feeds=feeds)
    reshape, matmul = list(model.graph)[-2:]
    assert (reshape.op_type, matmul.op_type) == ("Reshape", "MatMul")
    assert np.array_equal(constant(reshape.inputs[1]), [0, 0, 4])


def test_one_open_size_is_inferred():
    model = rewritten(PASS, computed("N,3,2,2", y="N,3,2"))
    reshape = next(node for node in model.graph if node.op_type == "Reshape")
    assert np.array_equal(constant(reshape.inputs[1]), [-1, 3, 4])


@pytest.mark.parametrize(
    ("x", "y", "target", "expected"),
    [
        ("2,3,4", "3,2,2", "3, 2, 2", [3, 2, 4]),
        ("2,3,2,2", "2,3,2", "2, 3, 2", [2, 3, 4]),
        ("2,6", "1,3,2", "1, 3, 2", [1, 3, 4]),
        ("A,B,4", "2,D,2", "2, -1, 2", [2, -1, 4]),
    ],
)
def test_rows_that_are_stacked_otherwise_take_one_reshape(x: str, y: str, target: str, expected: list[int]):
    model = rewritten(PASS, product(x, y, target), feeds={"x": rows(*SIZES[x]), "w": rows(4, 2)})
    assert operators(model.graph) == ["Reshape", "MatMul"]
    assert np.array_equal(constant(model.graph.node(0).inputs[1]), expected)


def test_reshape_that_others_use_stays():
    text = product("2,3,4", "2,3,2", "2, 3, 2").replace("[2,3,2] y)", "[2,3,2] y, float[6,4] r)")
    model = rewritten(PASS, text)
    assert operators(model.graph) == ["Reshape", "MatMul"]
    assert model.graph.node(1).inputs[0].name == "x"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            product("2,3,4", "3,2,2", "3, 2, 2").replace(" y) ", " y, float[6,4] r) "),
            "the rows have another shape before",
        ),
        (product("2,3,4", "2,6", "2, 6"), "the columns of the product are not known to be kept"),
        (product("2,3,4", "2,3,A", "2, 3, -1", w="4,B"), "the columns of the product are not known to be kept"),
        (product("2,3,4", "2,3,2", "2, 3, 2", w="K,2"), "the rows are empty, or of unknown size"),
        (product("2,3,0", "2,3,2", "2, 3, 2", w="0,2", s="6, 0"), "the rows are empty, or of unknown size"),
        (product("3,4", "6", "6"), "the rank of the result is unknown or less than 2"),
        (product("2,3,4", "2,3,2", "2, 3, 2", w="1,4,2"), "the right operand is not known to be a matrix"),
        (product("2,3,4", "2,3,2", "2, 3, 2", s="1, 6, 4"), "the shapes are not known"),
        (computed("N,M,2,2", others=", float[A,4] r"), "the rows have another shape before"),
        (product("2,3,4", "2,3,2", "2, 3, 2").replace(" y) ", " y, float[6,2] p) "), "the product is used elsewhere"),
        (
            product("2,3,4", "2,3,2", "2, 3, 2").replace(" w) =>", " w, int64[3] t) =>"),
            "a caller may override the target shape",
        ),
    ],
)
def test_refuses(text: str, reason: str):
    assert any(reason in refusal for refusal in refusals(PASS, text))


@pytest.mark.parametrize(("y", "w"), [("A,B,2", "4,2"), ("N,M,0", "4,0")])
def test_refuses_stacks_that_no_constant_target_reaches(y: str, w: str):
    text = f"""g (float[N,M,2,2] x, float[{w}] w, int64[3] t) => (float[{y}] y) <int64[2] s = {{-1, 4}}> {{
        r = Reshape (x, s) p = MatMul (r, w) y = Reshape <allowzero = 1> (p, t)
    }}"""
    assert "the sizes are not known, or zero" in refusals(PASS, text)


def rows(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)
