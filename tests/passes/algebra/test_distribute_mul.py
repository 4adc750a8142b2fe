"""Sums with a constant summand are multiplied out."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_passes.passes.algebra.arithmetic_laws import DistributeMul, DistributeMulRounding
from tests.passes.algebra.tools import operators, refusals, rewritten


def _scaled_sum(kind: str, summand: str, factor: str) -> str:
    return f"""g ({kind}[2,2] x) => ({kind}[2,2] y) <{kind} c = {summand}, {kind} d = {factor}>
    {{a = Add (x, c) y = Mul (a, d)}}"""


@pytest.mark.parametrize(("kind", "summand", "factor"), [("int32", "{2147483647}", "{3}"), ("uint8", "{200}", "{3}")])
def test_integers_wrap_around(kind: str, summand: str, factor: str) -> None:
    model = rewritten(DistributeMul(), _scaled_sum(kind, summand, factor))
    assert operators(model.graph) == ["Mul", "Add"]


def test_floats_are_distributed_by_the_pass_that_rounds() -> None:
    text = _scaled_sum("float", "{3}", "{-2}")
    assert refusals(DistributeMul(), text)["another pass handles this type"]
    feeds = {"x": np.array([[1, 2], [np.inf, np.nan]], np.float32)}
    assert operators(rewritten(DistributeMulRounding(), text, feeds=feeds).graph) == ["Mul", "Add"]


@pytest.mark.parametrize(
    ("summand", "factor", "reason"),
    [
        ("{1e30}", "{1e10}", "the product of the constants overflows or loses digits"),
        ("{1e-30}", "{1e-10}", "the product of the constants overflows or loses digits"),
        ("{3e38}", "{0.5}", "the constant is so large that a sum may leave the range"),
    ],
)
def test_refuses_what_changes_more_than_rounding(summand: str, factor: str, reason: str) -> None:
    assert refusals(DistributeMulRounding(), _scaled_sum("float", summand, factor))[reason]


def test_a_factor_that_widens_stays_outside() -> None:
    text = "g (int32[1] x) => (int32[3] y) <int32 c = {5}, int32[3] d = {1, 2, 3}> {a = Add (x, c) y = Mul (a, d)}"
    assert refusals(DistributeMul(), text)["the factor may widen the sum"]


def test_keeps_a_sum_that_others_use() -> None:
    text = "g (int32[2] x) => (int32[2] y, int32[2] z) <int32 c = {5}> {a = Add (x, c) y = Mul (a, c) z = Abs (a)}"
    assert refusals(DistributeMul(), text)["a value inside the match is used elsewhere"]
