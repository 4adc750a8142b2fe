"""What can be undone is cancelled in equations of integers, never in orderings or of floats."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_passes.passes.algebra.logic_laws import CancelInEquality
from tests.passes.algebra.tools import operators, refusals, rewritten

OPERATORS = [
    ("int32", "Add"),
    ("int32", "Sub"),
    ("uint8", "Add"),
    ("uint8", "Sub"),
    ("bool", "Xor"),
    ("int8", "BitwiseXor"),
]


@pytest.mark.parametrize(("kind", "op"), OPERATORS)
def test_takes_constants_to_the_other_side(kind: str, op: str) -> None:
    constants = ("1", "1") if kind == "bool" else ("100", "3")
    text = f"g ({kind}[3,4] x) => (bool[3,4] z) <{kind} c = {{{constants[0]}}}, {kind} d = {{{constants[1]}}}>"
    dtype = np.dtype(kind)
    feeds = {"x": np.resize(np.array([3, 103, 159, 97, 0, 1, 255, 100]), (3, 4)).astype(dtype)}
    model = rewritten(CancelInEquality(), text + f" {{y = {op} (x, c) z = Equal (y, d)}}", feeds=feeds)
    assert operators(model.graph) == ["Equal"]


@pytest.mark.parametrize(("kind", "op"), OPERATORS)
def test_drops_what_is_on_both_sides(kind: str, op: str) -> None:
    text = f"g ({kind}[3,4] x, {kind}[4] y, {kind}[3,1] z) => (bool[3,4] w)"
    model = rewritten(CancelInEquality(), text + f" {{a = {op} (x, z) b = {op} (y, z) w = Equal (a, b)}}")
    assert operators(model.graph) == ["Equal"]


def test_keeps_what_widens() -> None:
    text = "g (int32[1] x, int32[1] y, int32[3] z) => (bool[3] w) {a = Add (x, z) b = Add (y, z) w = Equal (a, b)}"
    assert refusals(CancelInEquality(), text)["the common operand may widen the other ones"]


def test_refuses_floats() -> None:
    text = "g (float[2] x, float[2] y, float[2] z) => (bool[2] w) {a = Add (x, z) b = Add (y, z) w = Equal (a, b)}"
    assert refusals(CancelInEquality(), text)["floats round"]


@pytest.mark.parametrize("comparison", ["Less", "LessOrEqual", "Greater", "GreaterOrEqual"])
@pytest.mark.parametrize("kind", ["int32", "uint8", "float"])
def test_orderings_stay_as_sums_may_wrap_around(kind: str, comparison: str) -> None:
    both = f"{{a = Add (x, z) b = Add (y, z) w = {comparison} (a, b)}}"
    one = f"{{b = Add (y, z) w = {comparison} (x, b)}}"
    for nodes in (both, one):
        text = f"g ({kind}[2] x, {kind}[2] y, {kind}[2] z) => (bool[2] w) {nodes}"
        assert not refusals(CancelInEquality(), text)
