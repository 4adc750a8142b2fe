"""QuantAvgPool2d: sums, shifted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_passes.ops.max_pool_nhwc import QuantAvgPool2d
from tests.ops.tools import assert_computes, one_node


@pytest.mark.parametrize("opset", [9, 11, 18, 23])
def test_shifts_the_sum_as_far_as_it_has_too_many_bits(opset: int):
    x = np.array([[[[15, 15], [15, 14]]], [[[1, 2], [3, -0.0]]]], np.float32)
    given = {"kernel": 2, "stride": 2, "ibits": 4, "obits": 4, "signed": 0}
    assert_computes(one_node(QuantAvgPool2d, x, opset=opset, **given), x, np.array([[[[14]]], [[[1]]]], np.float32))


def test_rounds_down_what_is_negative():
    x = np.array([[[[-1, 0], [0, 0]]]], np.float32)
    given = {"kernel": 2, "stride": 1, "ibits": 4, "obits": 4, "signed": 1}
    assert_computes(one_node(QuantAvgPool2d, x, **given), x, np.array([[[[-1]]]], np.float32))


@pytest.mark.parametrize("kernel", [3, 5, 6, 7])
def test_sums_are_whole_though_averages_are_not(kernel: int):
    sums = np.arange(-3000, 3000, dtype=np.float32)
    x = np.zeros((len(sums), 1, kernel, kernel), np.float32)
    x[:, 0, 0, 0] = sums
    given = {"kernel": kernel, "stride": 1, "ibits": 12, "obits": 32, "signed": 1}
    assert_computes(one_node(QuantAvgPool2d, x, **given), x, sums.reshape(-1, 1, 1, 1))


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 5),
    st.integers(1, 3),
    st.sampled_from([1, 2, 4, 8, 16]),
    st.integers(2, 9),
    st.booleans(),
    st.sampled_from(["NCHW", "NHWC", "nhwc"]),
    st.sampled_from([9, 11, 18, 23]),
    st.integers(0, 2**32),
)
def test_agrees_with_integers(kernel, stride, ibits, obits, signed, layout, opset, seed):
    rng = np.random.default_rng(seed)
    low = -(2 ** (ibits - 1)) if signed else 0
    x = rng.integers(low, low + 2**ibits, (2, 3, kernel + 3, kernel + 2))
    shift = max(0, ((2**ibits - 1) * kernel**2).bit_length() - obits)
    sums = [
        [x[:, :, i : i + kernel, j : j + kernel].sum(axis=(2, 3)) for j in range(0, 3, stride)]
        for i in range(0, 4, stride)
    ]
    expected = (np.moveaxis(np.array(sums), (0, 1), (2, 3)) >> shift).astype(np.float32)
    values = x.astype(np.float32)
    if layout != "NCHW":
        values, expected = np.moveaxis(values, 1, -1).copy(), np.moveaxis(expected, 1, -1)
    given = {"kernel": kernel, "stride": stride, "ibits": ibits, "obits": obits, "signed": int(signed)}
    assert_computes(one_node(QuantAvgPool2d, values, opset=opset, data_layout=layout, **given), values, expected)
