from __future__ import annotations

import onnx_ir as ir
import pytest

from onnx_passes.passes.quant.samples import MOVED
from tests.passes.quant.tools import applied, model_of, reasons
from tests.passes.tools import operators


@pytest.mark.parametrize("text", MOVED[:5])
def test_what_moves_data_comes_last(text: str):
    model = ir.from_onnx_text(text)
    name = operators(model.graph)[0]
    assert operators(applied("move-dequantize-up", model).graph) == ["DequantizeLinear", name]


def test_readers_of_moved_integers_keep_them():
    text = (
        "g (uint8[2,3] q) => (float[3,2] y, float[6] w, uint8[3,2] t) <float s = {0.3}, int64[1] n = {-1}>"
        "{ t = Transpose (q) y = DequantizeLinear (t, s) f = Reshape (t, n) w = DequantizeLinear (f, s) }"
    )
    model = applied("move-dequantize-up", model_of(text))
    assert sorted(operators(model.graph)) == [
        *["DequantizeLinear"] * 2,
        "Reshape",
        *["Transpose"] * 3,
    ]


@pytest.mark.parametrize(
    ("parameters", "body", "reason"),
    [
        ("float[3] s = {1, 2, 3}", "t = Reshape (q, n) y = DequantizeLinear <axis = 1> (t, s)", "one constant scale"),
        ("float s = {-1}", "t = Reshape (q, n) y = DequantizeLinear (t, s)", "not positive"),
    ],
)
def test_refuses(parameters: str, body: str, reason: str):
    text = f"g (uint8[2,3] q) => (float[2,3] y) <{parameters}, int64[2] n = {{2, 3}}> {{ {body} }}"
    assert reason in reasons("move-dequantize-up", model_of(text))


def test_what_fills_in_zeros_stays():
    body = "{ t = Pad (q, p) y = DequantizeLinear (t, s, z) }"
    head = "g (uint8[2,3] q) => (float[2,4] y) <float s = {1}, uint8 z = {7}, int64[4] p = {0, 0, 0, 1}>"
    assert not reasons("move-dequantize-up", model_of(f"{head} {body}"))


def test_places_of_maxima_are_kept():
    body = "{ t, i = MaxPool <kernel_shape = [2]> (q) y = DequantizeLinear (t, s) }"
    text = f"g (uint8[1,1,5] q) => (float[1,1,4] y, int64[1,1,4] i) <float s = {{0.3}}> {body}"
    model = applied("move-dequantize-up", model_of(text))
    assert sorted(operators(model.graph)) == ["DequantizeLinear", "MaxPool", "MaxPool"]
