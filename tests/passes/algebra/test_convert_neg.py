"""A product with minus one is a negation."""

from __future__ import annotations

import pytest

from onnx_passes.passes.algebra.arithmetic_laws import ConvertNeg
from tests.passes.algebra.tools import operators, refusals, rewritten


@pytest.mark.parametrize(
    ("op", "kind"),
    [("Mul", "float"), ("Mul", "double"), ("Mul", "int32"), ("Mul", "int8"), ("Div", "float")],
)
def test_negates(op: str, kind: str) -> None:
    text = f"g ({kind}[3,4] x) => ({kind}[3,4] y) <{kind}[1] c = {{-1}}> {{y = {op} (x, c)}}"
    assert operators(rewritten(ConvertNeg(), text).graph) == ["Neg"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(uint8[2] x) => (uint8[2] y) <uint8 c = {255}> {y = Mul (x, c)}", "the type cannot be negated"),
        ("(int32[2] x) => (int32[2] y) <int32 c = {-1}> {y = Div (x, c)}", "the type cannot be negated"),
        ("(float x) => (float[1] y) <float[1] c = {-1}> {y = Mul (x, c)}", "the constant may widen the other operand"),
        ("(float[2] x) => (float[2] y) <float[2] c = {-1, 1}> {y = Mul (x, c)}", "the constant is not minus one"),
        ("(float[2] x) => (float[2] y) <float c = {-1}> {y = Div (c, x)}", "the constant is not minus one"),
    ],
)
def test_refuses(text: str, reason: str) -> None:
    assert any(found.startswith(reason) for found in refusals(ConvertNeg(), f"g {text}"))
