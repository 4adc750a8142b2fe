from __future__ import annotations

import pytest

from tests.passes.fuse.tools import applied, outcome, reasons


def gemm(attributes: str = "", c: str = ", c", dtype: str = "float", constants: str = "") -> str:
    known = f"<{constants}>" if constants else ""
    return f"""g ({dtype}[2,3] a, {dtype}[3,4] b, {dtype}[4] c) => ({dtype}[?,?] y) {known}
        {{ y = Gemm {attributes} (a, b{c}) }}"""


@pytest.mark.parametrize("dtype", ["float", "double"])
@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ("", ["MatMul", "Add"]),
        ("<alpha = 0.5>", ["MatMul", "Mul", "Add"]),
        ("<beta = 0.5>", ["MatMul", "Mul", "Add"]),
        ("<beta = 0.0>", ["MatMul"]),
    ],
)
def test_attributes(attributes: str, expected: list[str], dtype: str):
    assert sorted(outcome("inline-gemm", gemm(attributes, dtype=dtype))) == sorted(expected)


def test_without_a_bias():
    assert outcome("inline-gemm", gemm(c="")) == ["MatMul"]


def test_transposes_inputs():
    text = "g (float[3,2] a, float[4,3] b) => (float[2,4] y) { y = Gemm <transA = 1, transB = 1> (a, b) }"
    assert outcome("inline-gemm", text) == ["Transpose", "Transpose", "MatMul"]


def test_constants_are_computed_at_once():
    text = """g (double[2,3] a) => (double[2,2] y) <double[2,3] b = {1,2,3,4,5,6}, double[2] c = {1,2}>
        { y = Gemm <transB = 1, beta = 0.1> (a, b, c) }"""
    assert outcome("inline-gemm", text) == ["MatMul", "Add"]


def test_a_constant_with_two_users_is_transposed_by_a_node():
    text = """g (float[2,3] a) => (float[2,2] y, float[2,2] z) <float[2,3] b = {1,2,3,4,5,6}>
        { y = Gemm <transB = 1> (a, b) z = Gemm <transB = 1> (a, b) }"""
    assert outcome("inline-gemm", text).count("Transpose") >= 1


def test_a_bias_that_can_be_overridden_is_multiplied_by_a_node():
    text = """g (float[2,3] a, float[3,2] b, float[2] c) => (float[2,2] y) <float[2] c = {1,2}>
        { y = Gemm <beta = 2.0> (a, b, c) }"""
    model = applied("inline-gemm", text)
    assert [value.name for value in model.graph.inputs] == ["a", "b", "c"]
    assert "Mul" in [node.op_type for node in model.graph]


def test_empty_matrices_stay():
    text = "g (float[2,0] a, float[0,4] b, float[4] c) => (float[2,4] y) { y = Gemm <beta = 2.0> (a, b, c) }"
    assert "empty" in reasons("inline-gemm", text)


def test_integers_with_broken_factors_stay():
    assert "fractional" in reasons("inline-gemm", gemm("<alpha = 0.5>", dtype="int32"))
