"""Sizes of convolutions are those that ONNX Runtime finds, and are computed once."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_passes.passes.annotate.shape_inference import ShapeInference
from tests.passes.tools import apply, model_of, run, value

NUMBER = st.integers(1, 3)


def conv(attributes: str, kernel: str = "3,2") -> ir.Model:
    return model_of(f"""g (float[N,2,H,W] x, float[4,2,{kernel}] w) => (float[A,B,C,D] y) {{
        c = Conv <{attributes}> (x, w) y = Identity (c)
    }}""")


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_sizes_are_those_of_the_runtime(data: st.DataObject):
    strides, dilations = (data.draw(st.tuples(NUMBER, NUMBER)) for _ in range(2))
    pads = data.draw(st.tuples(*[st.integers(0, 2)] * 4))
    sizes = {name: data.draw(st.integers(7, 12)) for name in "HW"} | {"N": 2}
    model = conv(f"strides = {list(strides)}, dilations = {list(dilations)}, pads = {list(pads)}")
    apply(ShapeInference(), model)
    shape = value(model, "c").shape
    assert shape is not None
    found = [dim if isinstance(dim, int) else dim.evaluate(sizes) for dim in shape]
    x = np.zeros((2, 2, sizes["H"], sizes["W"]), np.float32)
    (expected,) = run(model, {"x": x, "w": np.zeros((4, 2, 3, 2), np.float32)})
    assert found == list(expected.shape)


def test_a_convolution_that_keeps_sizes_keeps_their_names():
    model = conv("pads = [1, 1, 1, 1], kernel_shape = [3, 3]", "3,3")
    apply(ShapeInference(), model)
    assert str(value(model, "c").shape) == "[N,4,H,W]"


@pytest.mark.parametrize("attributes", ['auto_pad = "SAME_UPPER"', 'auto_pad = "VALID"', "kernel_shape = [3, 2]"])
def test_what_is_seldom_is_inferred_all_the_same(attributes: str):
    model = conv(attributes)
    apply(ShapeInference(), model)
    shape = value(model, "c").shape
    assert shape is not None
    assert shape[:2] == ("N", 4)
    assert len(shape) == 4


def test_axes_that_nobody_knows_are_not_taken_for_equal():
    model = conv("strides = [2, 2]")
    model.graph.inputs[0].shape = ir.Shape([None, 2, None, None])
    apply(ShapeInference(), model)
    shape = value(model, "c").shape
    assert shape is not None
    assert shape[2] != shape[3]


@pytest.mark.parametrize("attributes", ["strides: ints = []", "strides = [0, 1]", "pads = [1, 1]"])
def test_what_is_wrong_is_left_to_others(attributes: str):
    model = conv(attributes)
    apply(ShapeInference(), model)
    assert value(model, "c").shape is None


def test_windows_that_contradict_the_weights_are_left_to_others():
    model = conv("kernel_shape = [5, 5]")
    apply(ShapeInference(), model)
    assert str(value(model, "c").shape) == "[N,4,H - 4,W - 4]"
