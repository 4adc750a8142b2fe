from __future__ import annotations

import itertools

import numpy as np
import pytest

from onnx_passes.passes.eliminate.transpose_laws import EliminateTranspose
from tests.passes.eliminate.tools import body, refusals, rewritten


@pytest.mark.parametrize("text", ["<perm = [0, 1]>", ""])
def test_removes_what_moves_nothing(text: str):
    shape = "2,3" if text else "3"
    model = rewritten(
        EliminateTranspose(), f"g (float[{shape}] x) => (float[{shape}] y) {{a = Transpose {text} (x) y = Neg (a)}}"
    )
    assert body(model) == "y = Neg(x)"


def test_composes_all_pairs_of_permutations_of_unequal_axes():
    for p, q in itertools.product(itertools.permutations(range(3)), repeat=2):
        shape = np.array([2, 3, 5])[list(p)][list(q)]
        text = f"""g (float[2,3,5] x) => (float[{",".join(map(str, shape))}] z) {{
            a = Transpose <perm = {list(p)}> (x) y = Transpose <perm = {list(q)}> (a) z = Neg (y)
        }}"""
        model = rewritten(EliminateTranspose(), text)
        assert len(model.graph) <= 2


def test_two_reversals_cancel_without_a_known_rank():
    text = "g (float[2,3] x) => (float[2,3] y) {n = Neg (x) a = Transpose (n) b = Transpose (a) y = Abs (b)}"
    assert body(rewritten(EliminateTranspose(), text, infer=False)) == "n = Neg(x); y = Abs(n)"


def test_inner_transposition_stays_for_others():
    text = "g (float[2,3] x) => (float[3,2] a, float[2,3] y) {a = Transpose (x) b = Transpose (a) y = Neg (b)}"
    assert body(rewritten(EliminateTranspose(), text)) == "a = Transpose(x); y = Neg(x)"


def test_keeps_reversal_of_unknown_rank():
    text = "g (float[2] x) => (float[2] y) {n = Neg (x) a = Transpose (n) y = Abs (a)}"
    assert "the rank is not known" in refusals(EliminateTranspose(), text, infer=False)
