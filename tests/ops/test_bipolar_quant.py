"""BipolarQuant: one bit, the sign."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_passes.ops.quant import BipolarQuant
from tests.ops.tools import assert_computes, one_node


@pytest.mark.parametrize("opset", [9, 11, 12, 18, 23])
def test_zero_is_positive_and_nan_is_not(opset: int):
    x = np.array([1.5, -2, 0.0, -0.0, np.inf, -np.inf, np.nan], np.float32)
    model = one_node(BipolarQuant, x, np.float32(0.5), opset=opset)
    assert_computes(model, x, np.array([0.5, -0.5, 0.5, 0.5, 0.5, -0.5, -0.5], np.float32))


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
@pytest.mark.parametrize("opset", [9, 13, 18])
def test_other_precisions_and_scales_of_channels(dtype: type, opset: int):
    x = np.array([[1, -1, 0], [-0.0, np.nan, -7]], dtype)
    scale = np.array([0.5, -2, 0.1], dtype)
    for fed in (False, True):
        model = one_node(BipolarQuant, x, scale, opset=opset, fed=fed)
        assert_computes(model, x, np.array([[1, -1, 1], [1, -1, -1]], dtype) * scale)
