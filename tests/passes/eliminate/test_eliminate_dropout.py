from __future__ import annotations

import pytest

from onnx_passes.passes.eliminate.no_op_laws import EliminateDropout
from tests.passes.eliminate.tools import body, refusals, rewritten


@pytest.mark.parametrize("inputs", ["x", "x, r", "x, r, off", "x, , off"])
def test_removes_what_is_not_in_training(inputs: str):
    text = f"""g (float[2,3] x) => (float[2,3] y) <float r = {{0.4}}, bool off = {{0}}> {{
        a, m = Dropout ({inputs}) y = Neg (a)
    }}"""
    assert body(rewritten(EliminateDropout(), text)) == "y = Neg(x)"


@pytest.mark.parametrize("shape", ["[2,3]", "[N]", "", "[0,2]"])
def test_mask_is_true_everywhere(shape: str):
    text = f"g (float{shape} x) => (float{shape} y, bool{shape} m) {{a, m = Dropout (x) y = Neg (a)}}"
    assert {node.op_type for node in rewritten(EliminateDropout(), text).graph} == {"Neg", "Expand", "Shape"}


def test_removes_dropout_of_old_opsets():
    text = "g (float[2] x) => (float[2] y) {a = Dropout <ratio = 0.3> (x) y = Neg (a)}"
    assert body(rewritten(EliminateDropout(), text, opset=7)) == "y = Neg(x)"


@pytest.mark.parametrize("training", ["x, r, on", "x, r, t"])
def test_keeps_training(training: str):
    text = f"""g (float[2] x, bool t = {{0}}) => (float[2] y) <float r = {{0.4}}, bool on = {{1}}> {{
        a = Dropout ({training}) y = Neg (a)
    }}"""
    assert "it may be in training mode" in refusals(EliminateDropout(), text)


def test_keeps_opsets_where_training_is_an_attribute():
    text = "g (float[2] x) => (float[2] y) {a = Dropout <is_test = 1> (x) y = Neg (a)}"
    assert "training is an attribute in this opset" in refusals(EliminateDropout(), text, opset=6)
