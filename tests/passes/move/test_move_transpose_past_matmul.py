"""Transpositions move past matrix products and into Gemm."""

from __future__ import annotations

import pytest

from onnx_passes.passes.move.gemm_laws import AbsorbTransposeIntoGemm
from onnx_passes.passes.move.move_transpose_past_matmul import MoveTransposePastMatmul
from tests.passes.move.tools import refusals, rounded


def test_two_swapped_matrices_swap_places():
    text = "g (float[2,3] a, float[4,2] b) => (float[3,4] y) {s = Transpose (a) t = Transpose (b) y = MatMul (s, t)}"
    assert rounded(MoveTransposePastMatmul(), text) == ["MatMul", "Transpose"]


def test_batches_of_different_rank_broadcast():
    text = """g (float[7,1,2,3] a, float[5,4,2] b) => (float[7,5,3,4] y) {
        s = Transpose <perm = [0,1,3,2]> (a) t = Transpose <perm = [0,2,1]> (b) y = MatMul (s, t)
    }"""
    assert rounded(MoveTransposePastMatmul(), text) == ["MatMul", "Transpose"]


def test_rows_may_move_if_the_right_operand_is_a_matrix():
    text = """g (float[2,3,4,5] a, float[5,6] b) => (float[4,2,3,6] y) {
        s = Transpose <perm = [2,0,1,3]> (a) y = MatMul (s, b)
    }"""
    assert rounded(MoveTransposePastMatmul(), text) == ["MatMul", "Transpose"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "g (float[3] a, float[3] b) => (float y) {s = Transpose (a) t = Transpose (b) y = MatMul (s, t)}",
            "not a matrix",
        ),
        ("g (float[2,3] a, float[2] b) => (float[3] y) {s = Transpose (a) y = MatMul (s, b)}", "not a matrix"),
        ("g (float[2,3] a, float[2,4] b) => (float[3,4] y) {s = Transpose (a) y = MatMul (s, b)}", "last axis moves"),
        (
            """g (float[2,3,4] a, float[3,5,2] b) => (float[3,4,5] y) {
                s = Transpose <perm = [1,2,0]> (a) t = Transpose <perm = [0,2,1]> (b) y = MatMul (s, t)
            }""",
            "does not swap",
        ),
    ],
)
def test_vectors_and_other_permutations_stay(text: str, reason: str):
    assert any(reason in known for known in refusals(MoveTransposePastMatmul(), text))


def test_transposition_that_is_used_elsewhere_stays():
    text = """g (float[2,3] a, float[4,2] b) => (float[3,4] y, float[3,2] s) {
        s = Transpose (a) t = Transpose (b) y = MatMul (s, t)
    }"""
    assert any("graph output" in reason for reason in refusals(MoveTransposePastMatmul(), text))


@pytest.mark.parametrize(("flag", "shape"), [(0, "2,3"), (1, "3,2")])
def test_gemm_reads_what_was_there_before(flag: int, shape: str):
    text = f"""g (float[{shape}] a, float[4,2] b, float[4] c) => (float[3,4] y) {{
        s = Transpose (a) t = Transpose <perm = [1,0]> (b) y = Gemm <transA = {flag}, alpha = 0.5> (s, t, c)
    }}"""
    assert rounded(AbsorbTransposeIntoGemm(), text) == ["Gemm"]


def test_gemm_leaves_the_transposition_to_others():
    text = """g (float[2,3] a, float[2,4] b) => (float[3,4] y, float[3,2] z) {
        s = Transpose (a) y = Gemm (s, b) z = Neg (s)
    }"""
    assert sorted(rounded(AbsorbTransposeIntoGemm(), text)) == ["Gemm", "Neg", "Transpose"]


def test_gemm_refuses_what_moves_nothing():
    text = "g (float[2,3] a, float[3,4] b) => (float[2,4] y) {s = Transpose <perm = [0,1]> (a) y = Gemm (s, b)}"
    assert "it is the identity" in refusals(AbsorbTransposeIntoGemm(), text)


def test_gemm_of_one_transposed_value_twice():
    text = "g (float[3,3] a) => (float[3,3] y) {s = Transpose (a) y = Gemm (s, s)}"
    assert rounded(AbsorbTransposeIntoGemm(), text) == ["Gemm"]
