"""Operators for channels last: the standard ones, between transpositions."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_passes.core.errors import ModelError
from onnx_passes.ops.channels_last import (
    ChannelsLastAveragePool,
    ChannelsLastBatchNormalization,
    ChannelsLastConv,
    ChannelsLastConvTranspose,
    ChannelsLastMaxPool,
)
from onnx_passes.ops.describe import expand_nodes
from onnx_passes.ops.max_pool_nhwc import MaxPoolNHWC
from tests.ops.tools import assert_computes, one_node, results


def standard(name: str, inputs: list[np.ndarray], **given: Any) -> np.ndarray:
    """Run the standard operator by itself on values with the channels first, and bring them to the end."""
    names = [f"i{number}" for number in range(len(inputs))]
    infos = [
        onnx.helper.make_tensor_value_info(text, onnx.TensorProto.FLOAT, array.shape)
        for text, array in zip(names, inputs, strict=True)
    ]
    output = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    node = onnx.helper.make_node(name, names, ["y"], **given)
    graph = onnx.helper.make_graph([node], "graph", infos, [output])
    model = onnx.helper.make_model(graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 18)])
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return np.moveaxis(session.run(None, dict(zip(names, inputs, strict=True)))[0], 1, -1)


def last(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.moveaxis(array, 1, -1))


def drawn(axes: int, seed: int) -> tuple[np.random.Generator, dict[str, Any], tuple[int, ...]]:
    rng = np.random.default_rng(seed)
    kernel = [int(n) for n in rng.integers(1, 4, axes)]
    windows = {
        "kernel_shape": kernel,
        "strides": [int(n) for n in rng.integers(1, 4, axes)],
        "pads": [int(rng.integers(0, n)) for n in kernel * 2],
    }
    return rng, windows, (2, 4, *(int(n) + 5 for n in rng.integers(0, 4, axes)))


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 3), st.booleans(), st.booleans(), st.sampled_from([10, 11, 12, 18, 23]), st.integers(0, 2**32))
def test_maximum(axes: int, ceil: bool, spread: bool, opset: int, seed: int):
    rng, windows, shape = drawn(axes, seed)
    x = rng.permutation(np.prod(shape)).reshape(shape).astype(np.float32) - 50
    given = windows | {"ceil_mode": int(ceil), "dilations": [2 if spread else 1] * axes}
    expected = standard("MaxPool", [x], **given)
    for definition in (MaxPoolNHWC, ChannelsLastMaxPool):
        assert_computes(one_node(definition, last(x), opset=opset, **given), last(x), expected)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 3), st.booleans(), st.booleans(), st.sampled_from([10, 11, 18]), st.integers(0, 2**32))
def test_average(axes: int, ceil: bool, include: bool, opset: int, seed: int):
    rng, windows, shape = drawn(axes, seed)
    x = rng.integers(-99, 99, shape).astype(np.float32)
    given = windows | {"ceil_mode": int(ceil), "count_include_pad": int(include)}
    model = one_node(ChannelsLastAveragePool, last(x), opset=opset, **given)
    found = results(model, last(x))
    expected = standard("AveragePool", [x], **given)
    np.testing.assert_array_equal(found["fast"], expected)
    np.testing.assert_array_equal(found["portable"], expected)
    if ceil and tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 29):
        return  # Earlier versions of ONNX Runtime divide windows that reach beyond the padding by another number.
    np.testing.assert_array_almost_equal_nulp(found["numpy"], expected, 2)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 3),
    st.sampled_from([1, 2, 4]),
    st.booleans(),
    st.sampled_from([9, 11, 18, 23]),
    st.integers(0, 2**32),
)
def test_convolution(axes: int, group: int, biased: bool, opset: int, seed: int):
    rng, windows, shape = drawn(axes, seed)
    x = rng.integers(-9, 9, shape).astype(np.float32)
    weights = rng.integers(-9, 9, (8, 4 // group, *windows["kernel_shape"])).astype(np.float32)
    bias = [rng.integers(-9, 9, 8).astype(np.float32)] if biased else []
    given = windows | {"dilations": [int(n) for n in rng.integers(1, 3, axes)], "group": group}
    model = one_node(ChannelsLastConv, last(x), last(weights), *bias, opset=opset, fed=seed % 2 == 0, **given)
    assert_computes(model, last(x), standard("Conv", [x, weights, *bias], **given))


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 3), st.sampled_from([1, 2, 4]), st.booleans(), st.sampled_from([11, 18, 23]), st.integers(0, 2**32)
)
def test_transposed_convolution(axes: int, group: int, biased: bool, opset: int, seed: int):
    rng, windows, shape = drawn(axes, seed)
    x = rng.integers(-9, 9, shape).astype(np.float32)
    weights = rng.integers(-9, 9, (4, 3, *windows["kernel_shape"])).astype(np.float32)
    bias = [rng.integers(-9, 9, 3 * group).astype(np.float32)] if biased else []
    more = [int(rng.integers(0, step)) for step in windows["strides"]]
    given = windows | {"dilations": [int(n) for n in rng.integers(1, 3, axes)], "group": group, "output_padding": more}
    model = one_node(ChannelsLastConvTranspose, last(x), last(weights), *bias, opset=opset, fed=seed % 2 == 0, **given)
    assert_computes(model, last(x), standard("ConvTranspose", [x, weights, *bias], **given))


def test_convolution_takes_the_size_of_its_weights():
    x, weights = np.ones((1, 4, 4, 2), np.float32), np.ones((3, 2, 2, 2), np.float32)
    assert_computes(one_node(ChannelsLastConv, x, weights), x, np.full((1, 3, 3, 3), 8, np.float32))


@pytest.mark.parametrize("opset", [9, 14, 15, 18, 23])
@pytest.mark.parametrize("axes", [2, 3, 4])
def test_normalization(axes: int, opset: int):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, 5, 4)[:axes], dtype=np.float32)
    scale, bias, mean = rng.standard_normal((3, x.shape[1]), dtype=np.float32)
    variance = rng.uniform(0.1, 2, x.shape[1]).astype(np.float32)
    model = one_node(ChannelsLastBatchNormalization, last(x), scale, bias, mean, variance, opset=opset, epsilon=0.001)
    expected = standard("BatchNormalization", [x, scale, bias, mean, variance], epsilon=0.001)
    found = results(model, last(x))
    np.testing.assert_array_equal(found["fast"], expected)
    np.testing.assert_allclose(found["numpy"], expected, rtol=1e-5, atol=1e-6)


def test_refuses_windows_that_do_not_fit():
    x = np.zeros((1, 2, 2, 1), np.float32)
    with pytest.raises(ModelError, match="a window of 3 does not fit into 2"):
        results(one_node(ChannelsLastMaxPool, x, kernel_shape=[3, 3]), x)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"strides": [1]}, "need 2 strides, not 1"),
        ({"ceil_mode": 1}, "no ceil_mode in opset 9"),
        ({"dilations": [2, 1]}, "no dilations in opset 9"),
        ({"auto_pad": "SAME_UPPER"}, "auto_pad"),
    ],
)
def test_refuses_pooling_that_cannot_be(given: dict[str, Any], message: str):
    model = one_node(ChannelsLastMaxPool, np.zeros((1, 2, 2, 1), np.float32), opset=9, kernel_shape=[1, 1], **given)
    with pytest.raises(ModelError, match=message):
        expand_nodes(model)


def test_refuses_dilations_where_averages_have_none():
    x = np.zeros((1, 4, 4, 1), np.float32)
    model = one_node(ChannelsLastAveragePool, x, opset=18, kernel_shape=[2, 2], dilations=[2, 2])
    with pytest.raises(ModelError, match="opset 19"):
        expand_nodes(model)


def test_refuses_a_kernel_that_is_not_that_of_the_weights():
    x, weights = np.ones((1, 4, 4, 2), np.float32), np.ones((3, 2, 2, 2), np.float32)
    with pytest.raises(ModelError, match="that of the weights is"):
        expand_nodes(one_node(ChannelsLastConv, x, weights, kernel_shape=[3, 3]))


def test_refuses_an_unknown_number_of_axes():
    x, one = np.ones((1, 4, 4, 2), np.float32), np.ones(2, np.float32)
    model = one_node(ChannelsLastBatchNormalization, x, one, one, one, one)
    model.graph.inputs[0].shape = None
    with pytest.raises(ModelError, match="number of axes of x is not known"):
        expand_nodes(model)
