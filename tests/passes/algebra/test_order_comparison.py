"""Constants stand on the right of comparisons."""

from __future__ import annotations

import pytest

from onnx_passes.passes.algebra.logic_laws import OrderComparison
from tests.passes.algebra.tools import body, refusals, rewritten

CONVERSES = [
    ("Less", "Greater"),
    ("Greater", "Less"),
    ("LessOrEqual", "GreaterOrEqual"),
    ("GreaterOrEqual", "LessOrEqual"),
    ("Equal", "Equal"),
]


@pytest.mark.parametrize(("before", "after"), CONVERSES)
@pytest.mark.parametrize("kind", ["float", "int32"])
def test_the_constant_goes_right(kind: str, before: str, after: str) -> None:
    text = f"g ({kind}[3,4] x) => (bool[3,4] y) <{kind} c = {{1}}> {{y = {before} (c, x)}}"
    assert body(rewritten(OrderComparison(), text)) == f"y = {after}(x, c)"


def test_what_is_in_order_stays() -> None:
    reason = "the left operand is not the only constant"
    assert refusals(OrderComparison(), "g (float[3] x) => (bool[3] y) <float c = {1}> {y = Equal (x, c)}")[reason]
    assert refusals(OrderComparison(), "g (float[3] x, float c) => (bool[3] y) {y = Less (c, x)}")[reason]
