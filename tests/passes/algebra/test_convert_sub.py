"""The subtraction of a constant is an addition."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_passes.passes.algebra.arithmetic_laws import ConvertSub
from tests.passes.algebra.tools import operators, refusals, rewritten


@pytest.mark.parametrize(
    ("kind", "constant"),
    [("float", "0"), ("float", "-0.0"), ("float", "1e38"), ("int32", "-2147483648"), ("uint8", "200"), ("double", "3")],
)
def test_adds_the_negative(kind: str, constant: str) -> None:
    text = f"g ({kind}[3,4] x) => ({kind}[3,4] y) <{kind} c = {{{constant}}}> {{y = Sub (x, c)}}"
    assert operators(rewritten(ConvertSub(), text).graph) == ["Add"]


def test_a_constant_minus_something_stays() -> None:
    text = "g (float[2] x) => (float[2] y) <float c = {1}> {y = Sub (c, x)}"
    assert refusals(ConvertSub(), text)["the subtrahend is not a constant of its own"]


def test_large_constants_are_not_copied() -> None:
    numbers = ", ".join(["1"] * 2000)
    text = f"""g (float[2000] x) => (float[2000] y, float[2000] z) <float[2000] c = {{{numbers}}}>
    {{y = Sub (x, c) z = Mul (x, c)}}"""
    assert refusals(ConvertSub(), text)["the subtrahend is not a constant of its own"]


def test_a_default_that_callers_override_is_no_constant() -> None:
    text = "g (float[2] x, float c) => (float[2] y) <float c = {1}> {y = Sub (x, c)}"
    assert refusals(ConvertSub(), text)


def test_half_precision_is_rounded_once() -> None:
    text = "g (float16[4] x) => (float16[4] y) <float16 c = {15872}> {y = Sub (x, c)}"
    rewritten(ConvertSub(), text, feeds={"x": np.array([65504, -0.0, 1.5, 6e-8], np.float16)})
