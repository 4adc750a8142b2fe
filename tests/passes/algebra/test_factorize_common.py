"""Common operands are taken out wherever one operator distributes over another."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_passes.passes.algebra.arithmetic_laws import FactorizeCommon, FactorizeCommonFast
from tests.passes.algebra.tools import operators, refusals, rewritten

LAWS = [
    *(("int32", outer, "Mul") for outer in ("Add", "Sub")),
    *(("bool", outer, inner) for outer, inner in (("Or", "And"), ("Xor", "And"), ("And", "Or"))),
    ("int32", "BitwiseOr", "BitwiseAnd"),
    ("int32", "BitwiseXor", "BitwiseAnd"),
    ("int32", "BitwiseAnd", "BitwiseOr"),
]


def _text(kind: str, outer: str, inner: str) -> str:
    return f"""g ({kind}[2,1] x, {kind}[3] y, {kind}[1,3] z) => ({kind}[2,3] w)
    {{a = {inner} (x, z) b = {inner} (z, y) w = {outer} (a, b)}}"""


@pytest.mark.parametrize(("kind", "outer", "inner"), LAWS)
def test_takes_the_common_operand_out(kind: str, outer: str, inner: str) -> None:
    assert operators(rewritten(FactorizeCommon(), _text(kind, outer, inner)).graph) == [outer, inner]


def test_refuses_floats() -> None:
    assert refusals(FactorizeCommon(), _text("float", "Add", "Mul"))["another pass handles this type"]


def test_fast_math_takes_factors_of_floats_out() -> None:
    feeds = {"x": np.ones((2, 1), np.float32), "y": np.arange(3, dtype=np.float32), "z": np.ones((1, 3), np.float32)}
    for outer in ("Add", "Sub"):
        model = rewritten(FactorizeCommonFast(), _text("float", outer, "Mul"), feeds=feeds)
        assert operators(model.graph) == [outer, "Mul"]


def test_keeps_products_that_others_use() -> None:
    text = """g (int32[2] x, int32[2] y, int32[2] z) => (int32[2] w, int32[2] a)
    {a = Mul (x, z) b = Mul (y, z) w = Add (a, b)}"""
    assert refusals(FactorizeCommon(), text)["a value inside the match is a graph output"]
