"""Constant factors are taken out of what is linear."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_passes.passes.algebra.factor_laws import FactorizeLinear, FactorizeLinearFast
from tests.passes.algebra.tools import body, operators, refusals, rewritten


@pytest.mark.parametrize(
    ("x", "factor", "w", "y"),
    [
        ("2,3", "int32 s = {7}", "3,4", "2,4"),
        ("2,3", "int32[2,1] s = {7, -1}", "3,4", "2,4"),
        ("3", "int32[1] s = {7}", "3", ""),
        ("3", "int32 s = {7}", "3,4", "4"),
        ("5,2,3", "int32[2,1] s = {7, 2147483647}", "3,4", "5,2,4"),
    ],
)
def test_takes_factors_out_of_the_left_operand(x: str, factor: str, w: str, y: str) -> None:
    kinds = [f"int32[{dims}]" if dims else "int32" for dims in (x, w, y)]
    text = f"g ({kinds[0]} x, {kinds[1]} w) => ({kinds[2]} y) <{factor}> {{a = Mul (x, s) y = MatMul (a, w)}}"
    assert operators(rewritten(FactorizeLinear(), text).graph) == ["MatMul", "Mul"]


@pytest.mark.parametrize("factor", ["int32 s = {7}", "int32[4] s = {1, 2, 3, 4}", "int32[1,4] s = {1, 2, 3, 4}"])
def test_takes_factors_out_of_the_right_operand(factor: str) -> None:
    text = f"g (int32[2,3] x, int32[3,4] w) => (int32[2,4] y) <{factor}> {{a = Mul (s, w) y = MatMul (x, a)}}"
    assert operators(rewritten(FactorizeLinear(), text).graph) == ["MatMul", "Mul"]


def test_a_product_of_vectors_stays_a_scalar() -> None:
    text = "g (int32[3] x, int32[3] w) => (int32 y) <int32[1] s = {7}> {a = Mul (x, s) y = MatMul (a, w)}"
    model = rewritten(FactorizeLinear(), text)
    assert model.graph.outputs[0].shape is not None
    assert len(model.graph.outputs[0].shape) == 0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "g (int32[2,3] x, int32[3,4] w) => (int32[2,4] y) <int32[3] s = {1, 2, 3}>",
            "the factor varies along the summed axis",
        ),
        (
            "g (int32[3] x, int32[2,3,4] w) => (int32[2,4] y) <int32[1,1,1] s = {2}>",
            "the factor may widen its operand",
        ),
        (
            "g (int32[1,3] x, int32[3,4] w) => (int32[2,4] y) <int32[2,1] s = {2, 3}>",
            "the factor may widen its operand",
        ),
        (
            "g (float[2,3] x, float[3,4] w) => (float[2,4] y) <float s = {2}>",
            "another pass handles this type",
        ),
        (
            "g (int32[2,3] x, int32 s, int32[3,4] w) => (int32[2,4] y) <int32 s = {2}>",
            "not one operand of the product is constant",
        ),
    ],
)
def test_refuses_factors(text: str, reason: str) -> None:
    assert refusals(FactorizeLinear(), text + " {a = Mul (x, s) y = MatMul (a, w)}")[reason]


def test_integer_sums_are_left_alone() -> None:
    text = "g (int64[2,3] x) => (int64[2] y) <int64 s = {-1}> {a = Mul (x, s) y = ReduceSum <keepdims = 0> (a, k)}"
    text = text.replace("<int64 s", "<int64[1] k = {1}, int64 s")
    assert not refusals(FactorizeLinear(), text)
    assert refusals(FactorizeLinearFast(), text)["another pass handles this type"]


@pytest.mark.parametrize(
    ("ports", "nodes", "after"),
    [
        ("(float[2,3] x, float[3,4] w) => (float[2,4] y)", "y = MatMul (a, w)", "MatMul"),
        ("(float[1,2,5,5] x, float[3,2,3,3] w) => (float[1,3,5,5] y)", "y = Conv <pads = [1,1,1,1]> (a, w)", "Conv"),
        ("(float[2,3] x) => (float[2,1] y)", "y = ReduceSum (a, k)", "ReduceSum"),
        ("(float[2,3] x) => (float[2] y)", "y = ReduceMean <keepdims = 0> (a, k)", "ReduceMean"),
    ],
)
def test_fast_math_takes_factors_of_floats_out(ports: str, nodes: str, after: str) -> None:
    text = f"g {ports} <float s = {{4}}, int64[1] k = {{1}}> {{a = Mul (x, s) {nodes}}}"
    shapes = {"x": (1, 2, 5, 5) if after == "Conv" else (2, 3), "w": (3, 2, 3, 3) if after == "Conv" else (3, 4)}
    feeds = {name: np.ones(shape, np.float32) for name, shape in shapes.items() if f" {name}" in ports}
    model = rewritten(FactorizeLinearFast(), text, feeds=feeds)
    assert operators(model.graph) == [after, "Mul"]
    assert "pads" in body(model) or after != "Conv"


def test_fast_math_refuses_zero_factors_and_biases() -> None:
    zero = "g (float[2,3] x, float[3,4] w) => (float[2,4] y) <float s = {0}> {a = Mul (x, s) y = MatMul (a, w)}"
    assert refusals(FactorizeLinearFast(), zero)["the factor is zero or not finite"]
    bias = """g (float[1,2,5,5] x, float[3,2,3,3] w, float[3] b) => (float[1,3,3,3] y) <float s = {2}>
    {a = Mul (x, s) y = Conv (a, w, b)}"""
    assert not refusals(FactorizeLinearFast(), bias)
