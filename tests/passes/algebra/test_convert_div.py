"""The division by a constant is a multiplication."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_passes.passes.algebra.arithmetic_laws import ConvertDiv, ConvertDivRounding
from tests.passes.algebra.tools import operators, refusals, rewritten


def _text(kind: str, divisor: str) -> str:
    return f"g ({kind}[3,4] x) => ({kind}[3,4] y) <{kind} c = {{{divisor}}}> {{y = Div (x, c)}}"


@pytest.mark.parametrize(
    ("kind", "divisor"),
    [("float", "4"), ("float", "-0.5"), ("double", "1024"), ("double", "0.001953125"), ("float16", "17408")],
)
def test_powers_of_two_are_exact(kind: str, divisor: str) -> None:
    assert operators(rewritten(ConvertDiv(), _text(kind, divisor)).graph) == ["Mul"]


@pytest.mark.parametrize(
    ("kind", "divisor", "reason"),
    [
        ("float", "3", "the divisor is not a power of two"),
        ("float", "0", "the divisor or its reciprocal is not a normal number"),
        ("float", "1.7014118346046923e38", "the divisor or its reciprocal is not a normal number"),
        ("float", "1e-40", "the divisor or its reciprocal is not a normal number"),
        ("int32", "4", "integers are divided with a remainder"),
    ],
)
def test_refuses_divisors(kind: str, divisor: str, reason: str) -> None:
    assert refusals(ConvertDiv(), _text(kind, divisor))[reason]


def test_other_divisors_are_left_to_the_pass_that_rounds() -> None:
    feeds = {"x": np.resize(np.array([0, -0.0, np.inf, -np.inf, np.nan], np.float32), (3, 4))}
    assert operators(rewritten(ConvertDivRounding(), _text("float", "1.5"), feeds=feeds).graph) == ["Mul"]
    assert refusals(ConvertDivRounding(), _text("float", "0"))


def test_a_divided_constant_stays() -> None:
    text = "g (float[2] x) => (float[2] y) <float c = {2}> {y = Div (c, x)}"
    assert refusals(ConvertDiv(), text)["the divisor is not a constant of its own"]
