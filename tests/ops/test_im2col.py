"""Im2Col: patches of an image."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_passes.core.errors import ModelError
from onnx_passes.ops.describe import expand_nodes
from onnx_passes.ops.im2col import Im2Col
from tests.ops.tools import assert_computes, one_node

USUAL: dict[str, Any] = {"kernel_size": [2, 2], "stride": [1, 1], "input_shape": "(1, 2, 3, 2)"}


@pytest.mark.parametrize("opset", [9, 10, 11, 13, 18, 23])
def test_rows_have_all_channels_for_each_place(opset: int):
    x = np.arange(12, dtype=np.float32).reshape(1, 2, 3, 2)
    expected = [[[[0, 1, 2, 3, 6, 7, 8, 9], [2, 3, 4, 5, 8, 9, 10, 11]]]]
    assert_computes(one_node(Im2Col, x, opset=opset, **USUAL), x, np.array(expected, np.float32))


def test_padding_is_top_left_bottom_right():
    x = np.array([[[[5]]]], np.float32)
    model = one_node(Im2Col, x, kernel_size=[1, 1], stride=[1, 1], pad_amount=[1, 2, 0, 0], pad_value=-1)
    assert_computes(model, x, np.array([[[[-1]] * 3, [[-1], [-1], [5]]]], np.float32))


def reference(x: np.ndarray, kernel: Any, stride: Any, pads: Any, value: int, dilations: Any) -> np.ndarray:
    """Take each patch by itself."""
    x = np.pad(x, [(0, 0), (pads[0], pads[2]), (pads[1], pads[3]), (0, 0)], constant_values=value)
    reach = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
    rows = [
        [
            x[:, i : i + reach[0] : dilations[0], j : j + reach[1] : dilations[1]].reshape(len(x), -1)
            for j in range(0, x.shape[2] - reach[1] + 1, stride[1])
        ]
        for i in range(0, x.shape[1] - reach[0] + 1, stride[0])
    ]
    return np.stack([np.stack(row, axis=1) for row in rows], axis=1)


@settings(max_examples=25, deadline=None)
@given(
    st.tuples(st.integers(1, 3), st.integers(5, 8), st.integers(5, 8), st.integers(1, 3)),
    *(st.tuples(st.integers(1, 3), st.integers(1, 3)) for _ in range(2)),
    st.tuples(*(st.integers(0, 2),) * 4),
    st.integers(-2, 2),
    st.tuples(st.integers(1, 2), st.integers(1, 2)),
    st.sampled_from([9, 10, 11, 18, 23]),
)
def test_takes_every_patch_of_every_image(shape, kernel, stride, pads, value, dilations, opset):
    x = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    x.flat[0] = np.nan
    model = one_node(
        Im2Col, x, opset=opset, kernel_size=kernel, stride=stride, pad_amount=pads, pad_value=value, dilations=dilations
    )
    assert_computes(model, x, reference(x, kernel, stride, pads, value, dilations))


def test_integers_stay_integers():
    x = np.arange(12, dtype=np.int8).reshape(1, 2, 3, 2)
    model = one_node(Im2Col, x, pad_amount=[1, 1, 1, 1], pad_value=-128, **USUAL)
    model.graph.outputs[0].type = ir.TensorType(ir.DataType.INT8)
    assert_computes(model, x, reference(x, (2, 2), (1, 1), (1, 1, 1, 1), -128, (1, 1)))


def test_large_images_do_not_name_each_element():
    x = np.random.default_rng(0).standard_normal((1, 160, 160, 1), dtype=np.float32)
    model = one_node(Im2Col, x, kernel_size=[5, 5], stride=[1, 1])
    assert_computes(model, x, reference(x, (5, 5), (1, 1), (0,) * 4, 0, (1, 1)))


def test_input_shape_serves_where_the_shape_is_not_known():
    x = np.arange(12, dtype=np.float32).reshape(1, 2, 3, 2)
    model = one_node(Im2Col, x, **USUAL)
    model.graph.inputs[0].shape = None
    assert_computes(model, x, reference(x, (2, 2), (1, 1), (0,) * 4, 0, (1, 1)))


@pytest.mark.parametrize(
    ("shape", "given", "message"),
    [
        (["N", "H", 3, 2], {}, "height and width of the image have to be known"),
        ([1, 2, 3, 2], {"kernel_size": [3, 3]}, "a window of 3 does not fit into 2"),
        ([1, 2, 3, 2], {"kernel_size": [2]}, "need 1 strides, not 2"),
        ([1, 2, 3, 2], {"stride": [0, 1]}, "positive"),
        (None, {"input_shape": "(1, H, 3, 2)"}, "is not the shape of an image"),
        (None, {"input_shape": ""}, "have to be known"),
    ],
)
def test_refuses_what_it_cannot_know(shape: Any, given: dict[str, Any], message: str):
    model = one_node(Im2Col, np.zeros((1, 2, 3, 2), np.float32), **(USUAL | given))
    model.graph.inputs[0].shape = None if shape is None else ir.Shape(shape)
    with pytest.raises(ModelError, match=message) as caught:
        expand_nodes(model)
    assert "Im2Col" in str(caught.value)
