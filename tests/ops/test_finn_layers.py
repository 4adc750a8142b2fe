"""Layers of FINN: sums of all pixels, and repeated pixels."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_passes.ops.finn_layers import GlobalAccPool, UpsampleNearestNeighbour
from tests.ops.tools import assert_computes, one_node

IMAGE = np.random.default_rng(0).integers(-9, 10, (2, 3, 4, 5)).astype(np.float32)


@pytest.mark.parametrize("opset", [9, 13, 18])
def test_pixels_are_added_up(opset: int):
    expected = np.einsum("nhwc->nc", IMAGE)[:, None, None, :]
    assert_computes(one_node(GlobalAccPool, IMAGE, opset=opset, NumChannels=5, PE=1), IMAGE, expected)


@pytest.mark.parametrize("opset", [9, 13, 18])
def test_pixels_are_repeated(opset: int):
    sizes = {"HI": 3, "WI": 4, "HO": 6, "WO": 12, "NumChannels": 5}
    expected = np.kron(IMAGE, np.ones((1, 2, 3, 1), np.float32))
    assert_computes(one_node(UpsampleNearestNeighbour, IMAGE, opset=opset, **sizes), IMAGE, expected)
