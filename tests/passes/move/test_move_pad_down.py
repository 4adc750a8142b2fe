"""Padding moves down past what leaves it as it is."""

from __future__ import annotations

import pytest

from onnx_passes.passes.move.move_pad_down import KEEP_ZERO, MovePadDown, MovePadDownRounding
from onnx_passes.passes.move.steady import UNSTEADY
from tests.passes.move.tools import order, refusals, rounded

TEXT = """g (float[2,3] x) => (float[4,3] y)
    <int64[4] pads = {1,0,1,0}, float zero = {0}, float minus = {-0.0}, float one = {1}> {
    p = Pad PAD y = OUTER (p)
}"""


@pytest.mark.parametrize("outer", [name for name in KEEP_ZERO if name not in UNSTEADY])
def test_zeros_stay_zeros(outer: str):
    text = TEXT.replace("PAD", "(x, pads)").replace("OUTER", outer)
    assert order(MovePadDown(), text) == [outer, "Pad"]


@pytest.mark.parametrize("outer", [name for name in KEEP_ZERO if name in UNSTEADY])
def test_zeros_of_functions_stay_zeros(outer: str):
    text = TEXT.replace("PAD", "(x, pads, zero)").replace("OUTER", outer)
    assert rounded(MovePadDownRounding(), text, opset=20) == [outer, "Pad"]


def test_elements_of_the_value_itself_may_be_padded():
    text = TEXT.replace("PAD", '<mode = "edge"> (x, pads)').replace("OUTER", "Ceil")
    assert order(MovePadDown(), text) == ["Ceil", "Pad"]


@pytest.mark.parametrize("value", ["one", "minus"])
def test_other_values_are_refused(value: str):
    text = TEXT.replace("PAD", f"(x, pads, {value})").replace("OUTER", "Abs")
    assert "the padding is not zero" in refusals(MovePadDown(), text)


def test_cropping():
    text = TEXT.replace("PAD", "(x, pads)").replace("OUTER", "Relu").replace("{1,0,1,0}", "{-1,0,3,0}")
    assert order(MovePadDown(), text) == ["Relu", "Pad"]


def test_attributes_that_make_nan_of_zero_are_refused():
    text = TEXT.replace("PAD", "(x, pads)").replace("OUTER", "Celu <alpha = 0.0>")
    assert "with its attributes, the operator does not keep zero" in refusals(MovePadDownRounding(), text)
