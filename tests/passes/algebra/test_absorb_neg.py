"""Negations disappear in sums, products and even functions."""

from __future__ import annotations

import pytest

from onnx_passes.passes.algebra.arithmetic_laws import AbsorbNeg
from tests.passes.algebra.tools import operators, refusals, rewritten


@pytest.mark.parametrize("kind", ["float", "int32", "double"])
@pytest.mark.parametrize(
    ("nodes", "after"),
    [
        ("n = Neg (y) z = Add (x, n)", ["Sub"]),
        ("n = Neg (y) z = Add (n, x)", ["Sub"]),
        ("n = Neg (y) z = Sub (x, n)", ["Add"]),
        ("m = Neg (x) n = Neg (y) z = Mul (m, n)", ["Mul"]),
        ("n = Neg (x) z = Mul (c, n)", ["Mul"]),
        ("n = Mul (x, c) z = Neg (n)", ["Mul"]),
        ("n = Neg (x) z = Abs (n)", ["Abs"]),
    ],
)
def test_takes_in_negations(kind: str, nodes: str, after: list[str]) -> None:
    text = f"g ({kind}[3,4] x, {kind}[3,4] y) => ({kind}[3,4] z) <{kind} c = {{3}}> {{{nodes}}}"
    assert operators(rewritten(AbsorbNeg(), text).graph) == after


def test_a_negated_difference_of_integers_is_swapped() -> None:
    text = "g (int32[3] x, int32[3] y) => (int32[3] z) {n = Sub (x, y) z = Neg (n)}"
    assert operators(rewritten(AbsorbNeg(), text).graph) == ["Sub"]


def test_a_negated_difference_of_floats_keeps_the_sign_of_its_zeros() -> None:
    text = "g (float[3] x, float[3] y) => (float[3] z) {n = Sub (x, y) z = Neg (n)}"
    assert refusals(AbsorbNeg(), text)["a zero of floats would change its sign"]


def test_a_negation_that_others_use_stays_beside() -> None:
    text = "g (float[3] x, float[3] y) => (float[3] z, float[3] n) {n = Neg (y) z = Add (x, n)}"
    assert sorted(operators(rewritten(AbsorbNeg(), text).graph)) == ["Neg", "Sub"]


def test_a_product_that_others_use_stays() -> None:
    text = "g (float[3] x) => (float[3] z, float[3] n) <float c = {3}> {n = Mul (x, c) z = Neg (n)}"
    assert refusals(AbsorbNeg(), text)["a value inside the match is a graph output"]
