"""Run the layers of an integer network in numpy, from what the layers say alone, and hold every number to its type."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import numpy as np
import onnx
import onnx_ir as ir
from onnx.reference import ReferenceEvaluator

import onnx_passes
from onnx_passes import IntegerNetwork
from onnx_passes.backend.containers import NUMPY
from onnx_passes.backend.network import Layer, Tensor

Array = np.ndarray
Product = Callable[[Array, Array], Array]


def interpret(network: IntegerNetwork, inputs: Mapping[str, Array], opsets: Mapping[str, int]) -> dict[str, Array]:
    """Return the outputs; integers are computed as int64 and must stay within the type of their tensor."""
    known = {tensor.name: _given(tensor, inputs[tensor.name]) for tensor in network.inputs}
    for layer in network.layers:
        operands = [None if x is None else known[x.name] if x.values is None else _held(x) for x in layer.inputs]
        results = _run(layer, operands, opsets)
        for tensor, array in zip(layer.outputs, results, strict=True):
            known[tensor.name] = _checked(tensor, array)
    return {tensor.name: known[tensor.name] if tensor.values is None else tensor.values for tensor in network.outputs}


def _given(tensor: Tensor, array: Array) -> Array:
    return _checked(tensor, array.astype(np.int64) if tensor.is_integer else array)


def _held(tensor: Tensor) -> Array:
    assert tensor.values is not None
    if tensor.container in NUMPY:
        assert tensor.values.dtype == NUMPY[tensor.container] or tensor.values.dtype == np.bool_
    if tensor.is_integer:
        assert tensor.type.allowed(tensor.values).all()
        return tensor.values.astype(np.int64)
    return tensor.values


def _checked(tensor: Tensor, array: Array) -> Array:
    if tensor.shape is not None:
        fixed = [size == known for size, known in zip(array.shape, tensor.shape, strict=True) if isinstance(known, int)]
        assert all(fixed), f"{tensor} came out as {array.shape}"
    if array.size and array.dtype.kind in "if":
        assert (array >= tensor.low).all(), tensor
        assert (array <= tensor.high).all(), tensor
    if tensor.is_integer:
        assert array.dtype.kind in "iub", tensor
        assert tensor.type.allowed(array).all(), tensor
    return array


def _run(layer: Layer, operands: list[Array | None], opsets: Mapping[str, int]) -> list[Array]:
    x = operands[0]
    assert x is not None
    if layer.kind == "product" and not layer.operator.endswith("Integer"):
        return [_product(layer, *operands)]
    if layer.kind == "threshold":
        _, thresholds, levels = operands
        assert (thresholds[..., 1:] >= thresholds[..., :-1]).all()
        count = np.zeros(np.broadcast_shapes(x.shape, thresholds.shape[:-1]), np.int64)
        for step in np.moveaxis(thresholds, -1, 0):
            count += x >= step
        spread = np.broadcast_to(levels, (*count.shape, levels.shape[-1]))
        return [np.take_along_axis(spread, count[..., None], axis=-1)[..., 0]]
    if layer.kind == "scale":
        dtype = NUMPY[layer.outputs[0].container]
        value = x.astype(dtype)
        value = value if operands[1] is None else value * operands[1]
        return [value if operands[2] is None else value + operands[2]]
    if layer.kind == "cast":
        return [x if layer.outputs[0].is_integer else x.astype(NUMPY[layer.outputs[0].container])]
    if layer.kind in ("quantize", "float") or layer.operator.endswith("Integer"):
        return _in_onnxruntime(layer, operands, opsets)
    if layer.kind == "pooling":
        # The padding of the reference is NaN.
        return [each.astype(x.dtype) for each in _by_reference(layer, [x.astype(np.float64)], opsets)]
    return _by_reference(layer, operands, opsets)


def _by_reference(layer: Layer, operands: list[Array | None], opsets: Mapping[str, int]) -> list[Array]:
    return ReferenceEvaluator(_model(layer, operands, opsets)).run(None, _feeds(operands))


def _product(layer: Layer, x: Array, w: Array, bias: Array | None = None) -> Array:
    multiply = functools.partial(_PRODUCTS[layer.operator], layer)
    parts = [multiply(np.maximum(s * x, 0), np.maximum(t * w, 0)) for s, t in ((1, 1), (-1, -1), (1, -1), (-1, 1))]
    up, down = parts[0] + parts[1], parts[2] + parts[3]
    start = 0 if bias is None else bias.reshape(-1, *(1,) * (x.ndim - 2))
    assert layer.accumulator is not None
    # The greatest and the least sum, if all products of one sign are added first.
    for most in (up + np.maximum(start, 0), np.minimum(start, 0) - down):
        assert layer.accumulator.allowed(most).all(), layer
    return up - down + start


def _matmul(layer: Layer, x: Array, w: Array) -> Array:
    return np.matmul(x, w)


def _einsum(layer: Layer, x: Array, w: Array) -> Array:
    return np.einsum(layer.attributes["equation"], x, w)


def _conv(layer: Layer, x: Array, w: Array) -> Array:
    axes, pads = w.ndim - 2, layer.attributes["pads"]
    x = np.pad(x, [(0, 0), (0, 0), *zip(pads[:axes], pads[axes:], strict=True)])
    extents = [(size - 1) * step + 1 for size, step in zip(w.shape[2:], layer.attributes["dilations"], strict=True)]
    windows = np.lib.stride_tricks.sliding_window_view(x, extents, axis=tuple(range(2, x.ndim)))
    steps = [slice(None, None, step) for step in (*layer.attributes["strides"], *layer.attributes["dilations"])]
    windows = windows[(slice(None), slice(None), *steps)]
    groups, summed = layer.attributes["group"], [1, *range(2 + axes, 2 + 2 * axes)]
    inputs, weights = np.split(windows, groups, axis=1), np.split(w, groups, axis=0)
    each = [np.tensordot(a, b, (summed, range(1, b.ndim))) for a, b in zip(inputs, weights, strict=True)]
    return np.moveaxis(np.concatenate(each, axis=-1), -1, 1)


def _conv_transpose(layer: Layer, x: Array, w: Array) -> Array:
    axes, strides, pads = w.ndim - 2, layer.attributes["strides"], layer.attributes["pads"]
    extra = layer.attributes.get("output_padding", (0,) * axes)
    assert layer.attributes["group"] == 1
    full = [(n - 1) * s + k for n, s, k in zip(x.shape[2:], strides, w.shape[2:], strict=True)]
    sums = np.zeros((x.shape[0], w.shape[1], *full), np.int64)
    for tap in np.ndindex(*w.shape[2:]):
        spot = [slice(t, t + (n - 1) * s + 1, s) for t, n, s in zip(tap, x.shape[2:], strides, strict=True)]
        term = np.tensordot(x, w[(slice(None), slice(None), *tap)], ([1], [0]))
        sums[(slice(None), slice(None), *spot)] += np.moveaxis(term, -1, 1)
    kept = [slice(pads[a], full[a] - pads[a + axes] + extra[a]) for a in range(axes)]
    return sums[(slice(None), slice(None), *kept)]


_PRODUCTS = {"MatMul": _matmul, "Einsum": _einsum, "Conv": _conv, "ConvTranspose": _conv_transpose}


def _in_onnxruntime(layer: Layer, operands: list[Array | None], opsets: Mapping[str, int]) -> list[Array]:
    """Compute what is not for integers: integers are given as the floats that the model holds them in."""
    of_integers = layer.operator.endswith("Integer")
    given = zip(operands, layer.inputs, strict=True)
    read = [None if tensor is None else _as_given(array, tensor, of_integers) for array, tensor in given]
    found = onnx_passes.run_model(_model(layer, read, opsets), _feeds(read))
    return [
        found[tensor.name].astype(np.int64) if tensor.is_integer else found[tensor.name] for tensor in layer.outputs
    ]


def _as_given(array: Array, tensor: Tensor, of_integers: bool) -> Array:
    if tensor.values is not None or not tensor.is_integer:
        return array if tensor.values is None else tensor.values
    return array.astype(NUMPY[tensor.container] if of_integers else np.float32)


def _model(layer: Layer, operands: list[Array | None], opsets: Mapping[str, int]) -> onnx.ModelProto:
    domain, _, name = layer.operator.rpartition("::")
    names = ["" if array is None else f"i{index}" for index, array in enumerate(operands)]
    outputs = [tensor.name for tensor in layer.outputs]
    node = onnx.helper.make_node(name, names, outputs, domain=domain, **{
        key: list(value) if isinstance(value, tuple) else value for key, value in layer.attributes.items()
    })  # fmt: skip
    graph = onnx.helper.make_graph(
        [node],
        "layer",
        [
            onnx.helper.make_tensor_value_info(f"i{index}", ir.DataType.from_numpy(array.dtype).value, array.shape)
            for index, array in enumerate(operands)
            if array is not None
        ],
        [onnx.helper.make_value_info(output, onnx.TypeProto()) for output in outputs],
    )
    imports = [onnx.helper.make_opsetid(key, version) for key, version in opsets.items()]
    return onnx.helper.make_model(graph, opset_imports=imports, ir_version=10)


def _feeds(operands: list[Array | None]) -> dict[str, Array]:
    return {f"i{index}": array for index, array in enumerate(operands) if array is not None}
