from __future__ import annotations

import pytest

from onnx_passes.passes.eliminate.piece_laws import EliminatePad
from onnx_passes.rewrite.driver import rewrite
from tests.passes.eliminate.tools import body, operators, refusals, rewritten
from tests.passes.tools import apply, model_of


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
def test_removes_padding_by_nothing(mode: str):
    text = f"""g (float[N,2] x) => (float[N,2] y) <int64[4] p = {{0, 0, 0, 0}}> {{
        a = Pad <mode = "{mode}"> (x, p) y = Neg (a)
    }}"""
    assert body(rewritten(EliminatePad(), text)) == "y = Neg(x)"


def test_removes_padding_by_nothing_of_old_opsets():
    text = "g (float[2] x) => (float[2] y) {a = Pad <pads = [0, 0]> (x) y = Neg (a)}"
    assert body(rewritten(EliminatePad(), text, opset=10)) == "y = Neg(x)"


@pytest.mark.parametrize("mode", ["constant", "edge"])
def test_pads_once_instead_of_twice(mode: str):
    text = f"""g (float[3,2] x) => (float[A,B] y)
        <int64[4] p = {{1, 0, 2, 1}}, int64[2] q = {{2, 0}}, int64[1] one = {{-1}}> {{
        a = Pad <mode = "{mode}"> (x, p) y = Pad <mode = "{mode}"> (a, q, , one)
    }}"""
    model = rewritten(EliminatePad(), text)
    assert [node.op_type for node in model.graph] == ["Pad"]
    pads = model.graph.node(0).inputs[1]
    assert pads is not None
    assert pads.const_value is not None
    assert pads.const_value.numpy().tolist() == [1, 2, 2, 1]


def test_left_out_value_is_zero():
    text = (
        """g (float[2] x) => (float[6] y) <int64[2] p = {1, 1}, float v = {0.0}> {a = Pad (x, p) y = Pad (a, p, v)}"""
    )
    assert len(rewritten(EliminatePad(), text).graph) == 1


@pytest.mark.parametrize("value", ["-0.0", "1.0"])
def test_keeps_different_values(value: str):
    text = f"""g (float[2] x) => (float[6] y) <int64[2] p = {{1, 1}}, float v = {{{value}}}> {{
        a = Pad (x, p) y = Pad (a, p, v)
    }}"""
    assert "the values differ, or are not constant" in refusals(EliminatePad(), text)


def test_keeps_padding_of_what_was_cut():
    text = (
        """g (float[3] x) => (float[A] y) <int64[2] p = {-1, 0}, int64[2] q = {2, 0}> {a = Pad (x, p) y = Pad (a, q)}"""
    )
    assert "a pad is negative" in refusals(EliminatePad(), text)


def test_keeps_mirrored_padding():
    text = """g (float[3] x) => (float[A] y) <int64[2] p = {1, 0}> {
        a = Pad <mode = "reflect"> (x, p) y = Pad <mode = "reflect"> (a, p)
    }"""
    assert "the modes differ, or are not constant or edge" in refusals(EliminatePad(), text)


def test_scalars_are_padded_by_nothing():
    model = model_of("g (float x) => (float y) <int64[0] p = {}> {a = Pad (x, p) b = Pad (a, p) y = Neg (b)}")
    assert rewrite(model, [EliminatePad().rules()[1]]) == 1
    assert apply(EliminatePad(), model)
    assert operators(model.graph) == ["Neg"]
