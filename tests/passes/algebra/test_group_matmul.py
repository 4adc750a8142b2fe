"""Constant matrices are multiplied with each other where that is less work."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_passes.passes.algebra.grouping_laws import GroupMatmul
from tests.passes.algebra.tools import operators, refusals, rewritten

A = "float[3,2] a = {1, 2, 3, 4, 5, 6}"
B = "float[2,3] b = {1, 0, -1, 2, 3, 4}"


@pytest.mark.parametrize("rows", ["2,", "", "4,2,"])
def test_multiplies_constant_matrices(rows: str) -> None:
    text = f"g (float[{rows}3] x) => (float[{rows}3] z) <{A}, {B}> {{y = MatMul (x, a) z = MatMul (y, b)}}"
    shape = [int(size) for size in f"{rows}3".split(",")]
    model = rewritten(GroupMatmul(), text, feeds={"x": np.arange(np.prod(shape), dtype=np.float32).reshape(shape)})
    assert operators(model.graph) == ["MatMul"]


@pytest.mark.parametrize(
    ("constants", "reason"),
    [
        ("float[3,1] a = {1, 2, 3}, float[1,3] b = {4, 5, 6}", "the product has more elements than both matrices"),
        (f"{A}, float[2] b = {{1, 2}}", "the constants are not matrices"),
        (f"{A.replace('1, 2', '1e38, 2')}, {B.replace('1, 0', '10, 0')}", "the product of the matrices is not finite"),
    ],
)
def test_refuses_matrices(constants: str, reason: str) -> None:
    shape = "float[2]" if "b = {1, 2}" in constants else "float[2,3]"
    text = f"g (float[2,3] x) => ({shape} z) <{constants}> {{y = MatMul (x, a) z = MatMul (y, b)}}"
    assert refusals(GroupMatmul(), text)[reason]


def test_keeps_a_product_that_others_use() -> None:
    text = f"g (float[2,3] x) => (float[2,3] z, float[2,2] y) <{A}, {B}> {{y = MatMul (x, a) z = MatMul (y, b)}}"
    assert refusals(GroupMatmul(), text)["a value inside the match is a graph output"]
