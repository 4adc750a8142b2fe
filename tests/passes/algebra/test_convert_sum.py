"""Sums and means of two operands are binary operators."""

from __future__ import annotations

import pytest

from onnx_passes.passes.algebra.arithmetic_laws import ConvertSum
from tests.passes.algebra.tools import operators, refusals, rewritten


@pytest.mark.parametrize(
    ("op", "kind", "after"), [("Sum", "float", ["Add"]), ("Sum", "double", ["Add"]), ("Mean", "float", ["Add", "Mul"])]
)
def test_uses_binary_operators(op: str, kind: str, after: list[str]) -> None:
    text = f"g ({kind}[3,1] x, {kind}[4] y) => ({kind}[3,4] z) {{z = {op} (x, y)}}"
    assert operators(rewritten(ConvertSum(), text).graph) == after


def test_half_precision_means_stay() -> None:
    text = "g (float16[3] x, float16[3] y) => (float16[3] z) {z = Mean (x, y)}"
    assert refusals(ConvertSum(), text)["the type may be summed in a wider one"]


@pytest.mark.parametrize("operands", ["x", "x, y, x"])
def test_other_numbers_of_operands_stay(operands: str) -> None:
    assert not refusals(ConvertSum(), f"g (float[3] x, float[3] y) => (float[3] z) {{z = Sum ({operands})}}")
