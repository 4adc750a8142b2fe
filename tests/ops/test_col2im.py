"""Col2Im: the adjoint of Im2Col."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_passes.core.errors import ModelError
from onnx_passes.ops.describe import expand_nodes
from onnx_passes.ops.im2col import Col2Im, Im2Col
from tests.ops.tools import assert_computes, one_node, results


@pytest.mark.parametrize("opset", [9, 10, 11, 13, 18, 23])
def test_adds_where_patches_overlap(opset: int):
    x = np.array([[[[1, 2], [10, 20]]]], np.float32)
    model = one_node(Col2Im, x, opset=opset, kernel_size=[1, 2], stride=[1, 1], input_shape="(1, 1, 3, 1)")
    assert_computes(model, x, np.array([[[[1], [12], [20]]]], np.float32))


@settings(max_examples=25, deadline=None)
@given(
    st.tuples(st.integers(1, 3), st.integers(5, 7), st.integers(5, 7), st.integers(1, 3)),
    *(st.tuples(st.integers(1, 3), st.integers(1, 3)) for _ in range(2)),
    st.tuples(*(st.integers(0, 2),) * 4),
    st.tuples(st.integers(1, 2), st.integers(1, 2)),
    st.sampled_from([9, 10, 11, 18, 23]),
)
def test_is_the_adjoint_of_im2col(shape, kernel, stride, pads, dilations, opset):
    rng = np.random.default_rng(0)
    given = {"kernel_size": kernel, "stride": stride, "pad_amount": pads, "dilations": dilations}
    image = rng.integers(-50, 50, shape).astype(np.float32)
    taken = results(one_node(Im2Col, image, opset=opset, **given), image)["numpy"]
    rows = rng.integers(-50, 50, taken.shape).astype(np.float32)
    text = str(shape)
    model = one_node(Col2Im, rows, opset=opset, input_shape=text, **given)
    put = results(model, rows)["numpy"]
    assert put.shape == shape
    assert (image * put).sum(dtype=np.float64) == (taken * rows).sum(dtype=np.float64)
    assert_computes(model, rows, put)


def test_order_of_sums_is_fixed():
    x = np.random.default_rng(0).standard_normal((2, 5, 5, 27), dtype=np.float32)
    x[0, 0, 0, 0] = -0.0
    model = one_node(Col2Im, x, kernel_size=[3, 3], stride=[1, 1], input_shape="(1, 7, 7, 3)")
    assert_computes(model, x, results(model, x)["numpy"])


def test_refuses_an_image_without_a_shape():
    x = np.zeros((1, 1, 1, 1), np.float32)
    with pytest.raises(ModelError, match="needs the shape of the image"):
        expand_nodes(one_node(Col2Im, x, kernel_size=[1, 1], stride=[1, 1], input_shape=""))
