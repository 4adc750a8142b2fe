"""Inferred types and shapes are those of what comes out."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from onnx_shape_inference import ShapeInferenceContext

from onnx_passes.ops.channels_last import (
    ChannelsLastAveragePool,
    ChannelsLastBatchNormalization,
    ChannelsLastConv,
    ChannelsLastConvTranspose,
    ChannelsLastMaxPool,
)
from onnx_passes.ops.definition import Definition
from onnx_passes.ops.im2col import Col2Im, Im2Col
from onnx_passes.ops.layout_converter import DebugMarker, LayoutConverter
from onnx_passes.ops.max_pool_nhwc import MaxPoolNHWC, QuantAvgPool2d
from onnx_passes.ops.multi_threshold import MultiThreshold
from onnx_passes.ops.weighted_multi_threshold import WeightedMultiThreshold
from onnx_passes.ops.xnor_popcount_matmul import XnorPopcountMatMul
from tests.ops.tools import one_node, results

IMAGE = np.zeros((2, 7, 6, 4), np.float32)
FOUR = np.ones(4, np.float32)
POOL = {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 0, 1]}
AVERAGE = {"kernel": 3, "stride": 2, "ibits": 4, "obits": 4, "signed": 0}
PATCHES = {"kernel_size": [3, 2], "stride": [2, 1], "pad_amount": [1, 0, 1, 0], "dilations": [2, 1]}
Case = tuple[type[Definition], np.ndarray, list[np.ndarray], dict[str, Any]]
CASES: list[Case] = [
    (MultiThreshold, IMAGE, [np.zeros((4, 3), np.float32)], {"data_layout": "NHWC"}),
    (WeightedMultiThreshold, IMAGE, [np.zeros((5, 1, 1, 1, 1, 3), np.float32), np.ones(1, np.int8)], {}),
    (Im2Col, IMAGE, [], PATCHES),
    (Col2Im, np.zeros((2, 3, 5, 24), np.float32), [], PATCHES | {"input_shape": "(1, 7, 6, 4)"}),
    (XnorPopcountMatMul, np.zeros((2, 7, 6), np.float32), [np.zeros((6, 3), np.float32)], {}),
    (QuantAvgPool2d, IMAGE, [], AVERAGE | {"data_layout": "NHWC"}),
    (QuantAvgPool2d, IMAGE, [], AVERAGE),
    (MaxPoolNHWC, IMAGE, [], POOL),
    (MaxPoolNHWC, IMAGE, [], POOL | {"ceil_mode": 1}),
    (ChannelsLastMaxPool, IMAGE, [], POOL),
    (ChannelsLastAveragePool, IMAGE, [], POOL | {"ceil_mode": 1}),
    (ChannelsLastConv, IMAGE, [np.zeros((6, 3, 2, 2), np.float32)], {"group": 2, "strides": [2, 1]}),
    (ChannelsLastConvTranspose, IMAGE, [np.zeros((4, 3, 2, 2), np.float32)], {"group": 2, "strides": [2, 3]}),
    (ChannelsLastConvTranspose, IMAGE, [np.zeros((4, 3, 2, 2), np.float32)], {"strides": [2, 2], "pads": [1, 0, 0, 1]}),
    (ChannelsLastBatchNormalization, IMAGE, [FOUR, FOUR, FOUR, FOUR], {}),
    (LayoutConverter, IMAGE, [], {"from_layout": "NHWC", "to_layout": "NCHW"}),
    (DebugMarker, IMAGE, [], {}),
]


def inferred(case: Case, shape: ir.Shape | None) -> tuple[ir.Value, np.ndarray]:
    definition, x, others, attributes = case
    model = one_node(definition, x, *others, **attributes)
    node = model.graph[0]
    expected = definition().compute([x, *others], definition().checked(node))
    model.graph.inputs[0].shape = shape
    output = node.outputs[0]
    output.type = output.shape = None
    definition().infer(ShapeInferenceContext({"": 18}), node)
    return output, expected


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].__name__)
def test_shape_is_that_of_the_result(case: Case):
    output, expected = inferred(case, ir.Shape(case[1].shape))
    assert output.shape is not None
    assert tuple(output.shape) == expected.shape
    assert output.dtype == ir.DataType.from_numpy(expected.dtype)
    if output.dtype is ir.DataType.FLOAT:
        assert results(one_node(case[0], case[1], *case[2], **case[3]), case[1])["fast"].shape == expected.shape


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].__name__)
def test_named_batch_is_kept(case: Case):
    output, expected = inferred(case, ir.Shape(["batch", *case[1].shape[1:]]))
    assert output.shape is not None
    batch, *others = output.shape if case[0] is not WeightedMultiThreshold else tuple(output.shape)[1:]
    assert str(batch) == "batch"
    assert tuple(others) == expected.shape[-len(others) :]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].__name__)
def test_named_sizes_give_the_same_when_they_are_known(case: Case):
    rank = case[1].ndim
    output, expected = inferred(case, ir.Shape([f"d{axis}" for axis in range(rank)]))
    assert output.shape is not None
    assert len(output.shape) == expected.ndim
    known = {f"d{axis}": size for axis, size in enumerate(case[1].shape)}
    for dim, size in zip(output.shape, expected.shape, strict=True):
        if isinstance(dim, int):
            assert dim == size
        elif "_d" not in str(dim):
            assert dim.evaluate(known) == size


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].__name__)
def test_nothing_known_is_no_error(case: Case):
    output, _ = inferred(case, None)
    assert output.shape is None
