"""Comparisons see through functions where these make no difference, and only there."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from onnx_passes.core.base import Context
from onnx_passes.passes.algebra.comparison_laws import AbsorbIntoComparison
from onnx_passes.passes.annotate.shape_inference import ShapeInference
from tests.passes.algebra.tools import body, operators, refusals, rewritten
from tests.passes.tools import assert_equal_results, model_of, run

COMPARISONS = ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal")
FUNCTIONS = ("Relu (x)", "Clip (x, a, b)", "Max (a, x)", "Min (x, b)", "Floor (x)", "Ceil (x)", "Neg (x)")
NUMBERS = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, 2.0, -2.0, 2.5, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3e38]


@pytest.mark.parametrize(("comparison", "function"), list(itertools.product(COMPARISONS, FUNCTIONS)))
def test_every_constant_gives_the_same_for_every_number(comparison: str, function: str) -> None:
    feeds = {"x": np.array(NUMBERS, np.float32)}
    for c in ("-2", "-1", "-0.5", "-0.0", "0", "0.5", "1", "2", "2.5"):
        model = model_of(
            f"""g (float[16] x) => (bool[16] z) <float a = {{-1}}, float b = {{2}}, float c = {{{c}}}>
            {{y = {function} z = {comparison} (y, c)}}"""
        )
        ShapeInference().run(model, Context())
        expected = run(model, feeds)
        AbsorbIntoComparison().run(model, Context())
        assert_equal_results(model, expected, feeds)


@pytest.mark.parametrize(
    ("kind", "function", "comparison", "c", "after"),
    [
        ("float", "Relu (x)", "Greater", "0", "Greater"),
        ("float", "Relu (x)", "LessOrEqual", "0", "LessOrEqual"),
        ("float", "Clip (x, a, b)", "GreaterOrEqual", "2", "GreaterOrEqual"),
        ("int32", "Max (x, a)", "Equal", "1", "Equal"),
        ("float", "Floor (x)", "Less", "0.5", "Less"),
        ("float", "Neg (x)", "LessOrEqual", "3", "GreaterOrEqual"),
    ],
)
def test_takes_in_functions(kind: str, function: str, comparison: str, c: str, after: str) -> None:
    text = f"g ({kind}[3,4] x) => (bool[3,4] z) <{kind} a = {{-1}}, {kind} b = {{2}}, {kind} c = {{{c}}}>"
    model = rewritten(AbsorbIntoComparison(), text + f" {{y = {function} z = {comparison} (y, c)}}")
    assert operators(model.graph) == [after]
    assert body(model).startswith(f"z = {after}(x, ")


@pytest.mark.parametrize(
    ("kind", "function", "comparison", "c", "reason"),
    [
        ("float", "Relu (x)", "Less", "0", "the constant is not between the limits"),
        ("float", "Relu (x)", "GreaterOrEqual", "0", "the constant is not between the limits"),
        ("float", "Relu (x)", "Equal", "0", "the constant is not between the limits"),
        ("float", "Clip (x, a, b)", "Equal", "2", "the constant is not between the limits"),
        ("float", "Clip (x, a, b)", "Equal", "-1", "the constant is not between the limits"),
        ("float", "Clip (x, b, a)", "Greater", "0", "the constant is not between the limits"),
        ("float", "Floor (x)", "Greater", "0", "the rounding decides on the other side of the constant"),
        ("int32", "Neg (x)", "Less", "3", "the lowest integer is its own negative"),
    ],
)
def test_refuses(kind: str, function: str, comparison: str, c: str, reason: str) -> None:
    text = f"g ({kind}[3,4] x) => (bool[3,4] z) <{kind} a = {{-1}}, {kind} b = {{2}}, {kind} c = {{{c}}}>"
    assert refusals(AbsorbIntoComparison(), text + f" {{y = {function} z = {comparison} (y, c)}}")[reason]


@pytest.mark.parametrize("function", ["Mul (x, x)", "Log (x)", "Sigmoid (x)", "Sqrt (x)", "Abs (x)"])
def test_leaves_functions_alone_that_round_or_are_not_monotone(function: str) -> None:
    text = f"g (float[4] x) => (bool[4] z) <float c = {{-2}}> {{y = {function} z = Less (y, c)}}"
    assert not refusals(AbsorbIntoComparison(), text)


def test_limits_that_widen_stay() -> None:
    text = "g (float x) => (bool[2] z) <float[2] a = {-1, -2}, float c = {1}> {y = Max (x, a) z = Less (y, c)}"
    assert refusals(AbsorbIntoComparison(), text)["the limits may widen the operand"]


def test_computed_limits_stay() -> None:
    text = "g (float[2] x, float a) => (bool[2] z) <float c = {1}> {y = Clip (x, a) z = Less (y, c)}"
    assert refusals(AbsorbIntoComparison(), text)["the limits are not constant"]
