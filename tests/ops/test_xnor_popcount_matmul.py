"""XnorPopcountMatMul: how many bits agree."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_passes.core.errors import ModelError
from onnx_passes.ops.describe import expand_nodes
from onnx_passes.ops.xnor_popcount_matmul import XnorPopcountMatMul
from tests.ops.tools import assert_computes, one_node


@pytest.mark.parametrize("opset", [9, 13, 18, 23])
def test_counts_where_bits_agree(opset: int):
    a = np.array([[0, 0, 1], [1, 1, 1]], np.float32)
    b = np.array([[0, 1], [1, 1], [1, 0]], np.float32)
    assert_computes(one_node(XnorPopcountMatMul, a, b, opset=opset), a, np.array([[2, 0], [2, 2]], np.float32))


@pytest.mark.parametrize("fed", [False, True])
def test_agrees_with_counting_one_by_one(fed: bool):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 2, shape).astype(np.float32) for shape in ((2, 5, 300), (300, 7)))
    expected = (a[..., :, :, None] == b[None, None]).sum(axis=2).astype(np.float32)
    assert_computes(one_node(XnorPopcountMatMul, a, b, fed=fed), a, expected)


def test_length_may_be_known_from_either_input():
    a, b = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
    for index, left in ((0, True), (1, True), (None, False)):
        model = one_node(XnorPopcountMatMul, a, b, fed=True)
        for number, value in enumerate(model.graph.inputs):
            if index is None or number == index:
                value.shape = None
        if left:
            assert_computes(model, a, np.full((2, 4), 3, np.float32))
        else:
            with pytest.raises(ModelError, match="length of the rows has to be known"):
                expand_nodes(model)
