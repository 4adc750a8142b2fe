"""Squares are products."""

from __future__ import annotations

import pytest

from onnx_passes.passes.algebra.arithmetic_laws import ConvertPow
from tests.passes.algebra.tools import operators, refusals, rewritten


@pytest.mark.parametrize("exponent", ["float c = {2}", "int64[1] c = {2}", "double[1,1] c = {2}"])
@pytest.mark.parametrize("kind", ["float", "double"])
def test_multiplies(kind: str, exponent: str) -> None:
    text = f"g ({kind}[3,4] x) => ({kind}[3,4] y) <{exponent}> {{y = Pow (x, c)}}"
    assert operators(rewritten(ConvertPow(), text).graph) == ["Mul"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(float[2] x) => (float[2] y) <float c = {3}>", "the exponent is not the single number two"),
        ("(float[2] x) => (float[2] y) <float[2] c = {2, 2}>", "the exponent is not the single number two"),
        ("(float x) => (float[1] y) <float[1] c = {2}>", "the exponent may widen the base"),
        ("(int32[2] x) => (int32[2] y) <float c = {2}>", "powers of integers may be computed as floats"),
        ("(float[2] x, float c) => (float[2] y) <float c = {2}>", "the exponent is not the only constant"),
    ],
)
def test_refuses(text: str, reason: str) -> None:
    assert refusals(ConvertPow(), f"g {text} {{y = Pow (x, c)}}")[reason]
