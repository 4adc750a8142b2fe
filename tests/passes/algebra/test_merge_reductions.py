"""Reductions in a row become one."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_passes.passes.algebra.reduction_laws import MergeReductions, MergeReductionsFast
from tests.passes.algebra.tools import body, refusals, rewritten


def _text(op: str, kind: str, result: str, inner: tuple[int, int], outer: tuple[int, int]) -> str:
    return f"""g ({kind}[2,3,4] x) => ({kind}[{result}] y) <int64[1] a = {{{inner[0]}}}, int64[1] b = {{{outer[0]}}}>
    {{i = {op} <keepdims = {inner[1]}> (x, a) y = {op} <keepdims = {outer[1]}> (i, b)}}"""


@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin"])
@pytest.mark.parametrize(
    ("result", "inner", "outer"),
    [("1,3,1", (-1, 1), (0, 1)), ("4", (0, 0), (0, 0)), ("2", (1, 0), (-1, 0)), ("2,4", (1, 1), (-2, 0))],
)
def test_merges_axes(op: str, result: str, inner: tuple[int, int], outer: tuple[int, int]) -> None:
    model = rewritten(MergeReductions(), _text(op, "int32", result, inner, outer))
    assert body(model).count(op) == 1


@pytest.mark.parametrize(("result", "inner", "outer"), [("1,4", (0, 0), (0, 1)), ("3,1", (-1, 1), (0, 0))])
def test_refuses_what_no_single_reduction_keeps(result: str, inner: tuple[int, int], outer: tuple[int, int]) -> None:
    text = _text("ReduceMax", "int32", result, inner, outer)
    assert refusals(MergeReductions(), text)["no single reduction keeps the same axes"]


def test_axes_are_attributes_in_older_operator_sets() -> None:
    text = """g (int32[2,3,4] x) => (int32[3] y)
    {i = ReduceMax <axes = [0], keepdims = 0> (x) y = ReduceMax <axes = [1], keepdims = 0> (i)}"""
    assert body(rewritten(MergeReductions(), text, opset=13)) == "y = ReduceMax<axes=[0,2], keepdims=0>(x)"


def test_sums_of_integers_stay_as_runtimes_round_them() -> None:
    assert not refusals(MergeReductions(), _text("ReduceSum", "int64", "1,3,1", (2, 1), (0, 1)))
    assert refusals(MergeReductionsFast(), _text("ReduceSum", "int64", "1,3,1", (2, 1), (0, 1)))


def test_floats_stay_as_the_order_decides_about_nan() -> None:
    text = _text("ReduceMax", "float", "1,3,1", (2, 1), (0, 1))
    assert refusals(MergeReductions(), text)["another pass handles this type"]


@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin", "ReduceSum", "ReduceMean", "ReduceProd"])
def test_fast_math_merges_floats(op: str) -> None:
    feeds = {"x": np.ones((2, 3, 4), np.float32)}
    model = rewritten(MergeReductionsFast(), _text(op, "float", "3", (2, 0), (0, 0)), feeds=feeds)
    assert body(model).count(op) == 1


def test_refuses_computed_axes() -> None:
    text = "g (int32[2,3] x, int64[1] a) => (int32[1,1] y) {i = ReduceMax (x, a) y = ReduceMax (i)}"
    assert refusals(MergeReductions(), text)["the axes are not known"]
