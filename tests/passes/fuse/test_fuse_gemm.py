from __future__ import annotations

import pytest

from tests.passes.fuse.tools import applied, outcome, reasons


def product(inner: str, bias: str = "4", a: str = "2,3", b: str = "3,4", dtype: str = "float") -> str:
    return f"""g ({dtype}[{a}] a, {dtype}[{b}] b, {dtype}[{bias}] c) => ({dtype}[?,?] z) {{ {inner} }}"""


@pytest.mark.parametrize("bias", ["4", "1", "2,1", "1,4", "2,4", ""])
@pytest.mark.parametrize("dtype", ["float", "double"])
def test_a_bias_that_fits(bias: str, dtype: str):
    text = product("y = MatMul (a, b) z = Add (c, y)", bias, dtype=dtype)
    assert outcome("fuse-gemm", text.replace("[]", "")) == ["Gemm"]


def test_a_dynamic_batch():
    assert outcome("fuse-gemm", product("y = MatMul (a, b) z = Add (y, c)", "N,1", a="N,3")) == ["Gemm"]


def test_transpositions_go_into_the_gemm():
    text = product(
        "s = Transpose (a) t = Transpose <perm = [1,0]> (b) y = MatMul (s, t) z = Add (y, c)", a="3,2", b="4,3"
    )
    (node,) = applied("fuse-gemm", text).graph
    assert [node.attributes.get_int(name, 0) for name in ("transA", "transB")] == [1, 1]


def test_a_transposition_takes_another_back():
    (node,) = applied("fuse-gemm", product("t = Transpose (a) z = Gemm <transA = 1> (t, b, c)")).graph
    assert node.attributes.get_int("transA", 0) == 0


def test_a_transposition_that_others_use_stays():
    text = """g (float[3,2] a, float[3,4] b) => (float[2,4] z, float[2,3] t)
        { t = Transpose (a) z = Gemm (t, b) }"""
    assert outcome("fuse-gemm", text) == ["Transpose", "Gemm"]


def test_a_bias_after_a_gemm_without_one():
    (node,) = applied("fuse-gemm", product("y = Gemm <alpha = 2.0, beta = 3.0> (a, b) z = Add (y, c)")).graph
    assert (node.attributes.get_float("alpha", 1.0), node.attributes.get_float("beta", 1.0)) == (2.0, 1.0)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (product("y = MatMul (a, b) z = Add (y, c)", "1,2,4").replace("?,?]", "?,?,?]"), "broadcast to"),
        (product("y = MatMul (a, b) z = Add (y, c)", "3,1", a="1,3"), "broadcast to"),
        (product("y = MatMul (a, b) z = Add (y, c)", "4", b="3,1"), "broadcast to"),
        (product("y = MatMul (a, b) z = Add (y, c)", "M,4", a="N,3"), "broadcast to"),
        (product("y = MatMul (a, b) z = Add (y, c)", dtype="int32"), "not of floats"),
        (product("y = MatMul (a, b) z = Add (y, c)", a="5,2,3").replace("?,?]", "?,?,?]"), "of matrices"),
        (product("y = MatMul (a, b) z = Add (y, y)"), "added to itself"),
        (product("y = MatMul (a, b) r = Relu (y) z = Add (y, r)"), "used elsewhere"),
    ],
)
def test_refuses(text: str, reason: str):
    assert reason in reasons("fuse-gemm", text)


def test_one_transposed_value_as_both_operands():
    text = """g (float[3,3] a) => (float[3,3] z)
        { t = Transpose (a) z = Gemm (t, t) }"""
    assert outcome("fuse-gemm", text) == ["Gemm"]
