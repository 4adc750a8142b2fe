from __future__ import annotations

import pytest

from onnx_passes.passes.eliminate.element_laws import EliminateAnnihilator
from tests.passes.eliminate.tools import refusals, rewritten


@pytest.mark.parametrize(
    ("op_type", "kind", "constant"),
    [
        ("Mul", "int64", "0"),
        ("And", "bool", "0"),
        ("Or", "bool", "1"),
        ("BitwiseAnd", "uint8", "0"),
        ("BitwiseOr", "uint8", "255"),
    ],
)
@pytest.mark.parametrize("shape", ["[N,3]", "[2,3]", ""])
def test_result_depends_on_the_shape_alone(op_type: str, kind: str, constant: str, shape: str):
    text = f"""g ({kind}{shape} x) => ({kind}{shape} y) <{kind} c = {{{constant}}}> {{
        a = {op_type} (x, c) y = Identity (a)
    }}"""
    model = rewritten(EliminateAnnihilator(), text)
    assert op_type not in [node.op_type for node in model.graph]


@pytest.mark.parametrize("shape", ["[1]", "[3,1]", ""])
def test_wider_constant_is_the_result(shape: str):
    text = f"g (int32{shape} x) => (int32[3,2] y) <int32[3,2] c = {{0, 0, 0, 0, 0, 0}}> {{y = Mul (c, x)}}"
    assert [node.op_type for node in rewritten(EliminateAnnihilator(), text).graph] == ["Identity"]


def test_both_operands_may_widen_each_other():
    text = "g (bool[3,1] x) => (bool[3,2] y) <bool[2] c = {0, 0}> {y = And (x, c)}"
    assert [node.op_type for node in rewritten(EliminateAnnihilator(), text).graph] == ["Expand"]


def test_keeps_floats():
    text = "g (float[2] x) => (float[2] y) <float c = {0.0}> {y = Mul (x, c)}"
    assert "NaN, infinities and signs would be lost" in refusals(EliminateAnnihilator(), text)


def test_keeps_default_that_may_be_overridden():
    text = "g (int32[2] x, int32 c = {0}) => (int32[2] y) {y = Mul (x, c)}"
    assert "neither operand is constant" in refusals(EliminateAnnihilator(), text)
