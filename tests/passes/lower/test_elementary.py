from __future__ import annotations

import numpy as np
import onnx
import onnx.reference
import onnx_ir as ir
import pytest

import onnx_passes
from tests.passes.fuse.tools import outcome, reasons
from tests.passes.tools import model_of, operators

CASES = [
    ("lower-sigmoid", "Sigmoid", 18),
    ("lower-softplus", "Softplus", 18),
    ("lower-hardsigmoid", "HardSigmoid", 18),
    ("lower-hardsigmoid", "HardSigmoid <alpha = 0.4, beta = 0.1>", 18),
    ("lower-hardswish", "HardSwish", 18),
    ("lower-gelu", "Gelu", 20),
    ("lower-gelu", 'Gelu <approximate = "tanh">', 20),
    ("lower-silu", "Swish", 24),
    ("lower-swish", "Swish <alpha = 1.7>", 24),
    ("lower-mish", "Mish", 18),
]


def activation(operator: str, x: str = "float[2,N]") -> str:
    return f"g ({x} x) => ({x} y) {{ y = {operator} (x) }}"


@pytest.mark.parametrize(("name", "operator", "opset"), CASES)
def test_nothing_of_the_operator_is_left(name: str, operator: str, opset: int):
    found = outcome(name, activation(operator), opset=opset)
    assert operator.split(maxsplit=1)[0] not in found
    assert set(found) <= {"Abs", "Add", "Clip", "Div", "Erf", "Exp", "Log", "Mul", "Neg", "Relu", "Tanh"}


@pytest.mark.parametrize(("name", "operator", "opset"), CASES)
def test_agrees_with_the_definition_of_onnx(name: str, operator: str, opset: int):
    model = model_of(activation(operator), opset=opset, ir_version=11 if opset > 21 else 9)
    x = np.array([[-80, -5, -1.5, -0.0, 0, 0.3], [1, 2.5, 3, 8, 50, 80]], np.float32)
    (expected,) = onnx.reference.ReferenceEvaluator(ir.to_proto(model)).run(None, {"x": x})
    lowered = onnx_passes.apply(model, name).model
    (found,) = onnx.reference.ReferenceEvaluator(ir.to_proto(lowered)).run(None, {"x": x})
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_the_whole_group_leaves_no_sigmoid():
    text = "g (float[2] x) => (float[2] y) { a = Swish (x) b = Mish (a) c = Sigmoid (b) y = Gelu (c) }"
    result = onnx_passes.apply(model_of(text, opset=24, ir_version=11), "lower")
    assert not {"Sigmoid", "Softplus", "Swish", "Mish", "Gelu"} & set(operators(result.model.graph))


def test_refuses_old_operator_sets():
    assert "opset 13" in reasons("lower-sigmoid", activation("Sigmoid"), opset=12)


def test_in_a_branch():
    text = """g (bool c, float[2] x) => (float[2] y) { y = If (c) <
        then_branch = t () => (float[2] p) { p = Sigmoid (x) }, else_branch = e () => (float[2] q) { q = Neg (x) }> }"""
    assert outcome("lower-sigmoid", text) == ["If"]
