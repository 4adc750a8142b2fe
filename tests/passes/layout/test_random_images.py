"""Random networks on images: converted, they compute the same, with transposes at inputs and outputs alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import onnx_passes
from onnx_passes.api import run_model

OPTIONS = ("", "inputs=true, outputs=true", "domain=standard", "exact=true", "strict=true")


class Network:
    """Draws one layer after the other; values are float images whose sizes are known."""

    def __init__(self, data: Any, axes: int) -> None:
        self.data, self.axes = data, axes
        self.rng = np.random.default_rng(data.draw(st.integers(0, 2**16)))
        self.nodes: list[onnx.NodeProto] = []
        self.held: list[onnx.TensorProto] = []
        self.shapes: dict[str, tuple[int, ...]] = {}

    def pick(self, *options: Any) -> Any:
        return self.data.draw(st.sampled_from(options))

    def constant(self, *shape: int) -> str:
        array = (self.rng.integers(-4, 5, shape) / 4).astype(np.float32)
        return self.stored(array)

    def stored(self, array: np.ndarray) -> str:
        name = f"c{len(self.held)}"
        self.held.append(numpy_helper.from_array(array, name))
        return name

    def node(self, op: str, inputs: list[str], shape: tuple[int, ...], **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        self.shapes[name] = shape
        return name

    def layer(self) -> None:
        """Add a layer that reads one of the images there are, or two of a size."""
        x = self.pick(*self.shapes)
        shape = self.shapes[x]
        channels, sizes = shape[1], shape[2:]
        kinds = ["conv", "unary", "constant", "join", "concat", "gate", "slice", "softmax", "pad", "resize", "turn"]
        kind = self.pick(*kinds, *(["pool", "transposed"] if min(sizes) > 1 else []))
        getattr(self, f"_{kind}")(x, shape, channels, sizes)

    def _conv(self, x: str, shape: tuple[int, ...], channels: int, sizes: tuple[int, ...]) -> None:
        group = self.pick(1, channels)
        kernel = [self.pick(1, min(2, size)) for size in sizes]
        features = channels * self.pick(1, 2) if group > 1 else self.pick(1, 2, 3)
        weights = self.constant(features, channels // group, *kernel)
        bias = [self.constant(features)] if self.pick(True, False) else []
        result = (shape[0], features, *(size - k + 1 for size, k in zip(sizes, kernel, strict=True)))
        self.node("Conv", [x, weights, *bias], result, group=group)

    def _transposed(self, x: str, shape: tuple[int, ...], channels: int, sizes: tuple[int, ...]) -> None:
        weights = self.constant(channels, 2, *([2] * self.axes))
        result = (shape[0], 2, *(2 * size for size in sizes))
        self.node("ConvTranspose", [x, weights], result, strides=[2] * self.axes)

    def _pool(self, x: str, shape: tuple[int, ...], channels: int, sizes: tuple[int, ...]) -> None:
        result = (*shape[:2], *(size - 1 for size in sizes))
        self.node(self.pick("MaxPool", "AveragePool"), [x], result, kernel_shape=[2] * self.axes)

    def _unary(self, x: str, shape: tuple[int, ...], *_: Any) -> None:
        self.node(self.pick("Relu", "Neg", "Sigmoid"), [x], shape)

    def _constant(self, x: str, shape: tuple[int, ...], channels: int, sizes: tuple[int, ...]) -> None:
        other = self.pick((), (1,), (channels, *[1] * self.axes), shape[1:], (sizes[-1],))
        inputs = [x, self.constant(*other)]
        self.node(self.pick("Add", "Mul", "Sub"), inputs if self.pick(True, False) else inputs[::-1], shape)

    def _join(self, x: str, shape: tuple[int, ...], *_: Any) -> None:
        other = self.pick(*(name for name, sizes in self.shapes.items() if sizes == shape))
        self.node(self.pick("Add", "Mul"), [x, other], shape)

    def _concat(self, x: str, shape: tuple[int, ...], *_: Any) -> None:
        alike = [name for name, sizes in self.shapes.items() if sizes[2:] == shape[2:] and sizes[1] <= 4]
        if alike:
            other = self.pick(*alike)
            self.node("Concat", [x, other], (shape[0], shape[1] + self.shapes[other][1], *shape[2:]), axis=1)

    def _gate(self, x: str, shape: tuple[int, ...], *_: Any) -> None:
        pooled = self.node(self.pick("GlobalAveragePool", "GlobalMaxPool"), [x], (*shape[:2], *[1] * self.axes))
        self.node("Mul", [x, pooled], shape)

    def _slice(self, x: str, shape: tuple[int, ...], *_: Any) -> None:
        axis = self.pick(*range(1, len(shape)))
        ends = [self.stored(np.array([number], np.int64)) for number in (0, max(shape[axis] - 1, 1), axis)]
        result = list(shape)
        result[axis] = max(shape[axis] - 1, 1)
        self.node("Slice", [x, *ends], tuple(result))

    def _softmax(self, x: str, shape: tuple[int, ...], *_: Any) -> None:
        self.node("Softmax", [x], shape, axis=self.pick(1, -1))

    def _pad(self, x: str, shape: tuple[int, ...], *_: Any) -> None:
        pads = [0] * 2 * len(shape)
        axis = self.pick(*range(1, len(shape)))
        pads[axis] = 1
        result = tuple(size + (place == axis) for place, size in enumerate(shape))
        self.node("Pad", [x, self.stored(np.array(pads, np.int64))], result)

    def _resize(self, x: str, shape: tuple[int, ...], *_: Any) -> None:
        if max(shape[2:]) <= 4:
            scales = self.stored(np.array([1, 1, *[2] * self.axes], np.float32))
            result = (*shape[:2], *(2 * size for size in shape[2:]))
            self.node("Resize", [x, "", scales], result, mode="nearest")

    def _turn(self, x: str, shape: tuple[int, ...], *_: Any) -> None:
        """Turn an image, do something, and turn it back, as exporters of other frameworks leave it."""
        last = [0, *range(2, len(shape)), 1]
        turned = self.node("Transpose", [x], shape, perm=last)
        self.shapes.pop(turned)
        active = self.node("Relu", [turned], shape)
        self.shapes.pop(active)
        self.node("Transpose", [active], shape, perm=[last.index(axis) for axis in range(len(shape))])

    def model(self) -> ir.Model:
        """Return a network whose outputs are what nobody reads, one of them flattened for a dense layer."""
        read = {name for node in self.nodes for name in node.input}
        ends = [name for name in self.shapes if name not in read and name != "x"]
        if ends and self.pick(True, False):
            first = ends.pop()
            count = int(np.prod(self.shapes[first][1:]))
            self.nodes.append(helper.make_node("Flatten", [first], ["flat"]))
            self.nodes.append(helper.make_node("Gemm", ["flat", self.constant(count, 3)], ["dense"]))
            ends.append("dense")
            self.shapes["dense"] = (2, 3)
        outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, self.shapes[name]) for name in ends]
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shapes["x"])]
        graph = helper.make_graph(self.nodes, "g", inputs, outputs, self.held)
        return ir.from_proto(helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 18)]))


@settings(max_examples=40, deadline=None)
@given(st.data())
@pytest.mark.parametrize("options", OPTIONS)
def test_random_networks(options: str, data: Any):
    network = Network(data, data.draw(st.integers(1, 3)))
    network.shapes["x"] = (2, 2, *([4, 3, 2][: network.axes]))
    for _ in range(data.draw(st.integers(1, 9))):
        network.layer()
    model = network.model()
    result = onnx_passes.apply(model, f"convert-channels-last{{{options}}}", verify=False, paranoid=True).model
    x = network.rng.normal(size=network.shapes["x"]).astype(np.float32)
    before = run_model(model, {"x": x})
    after = run_model(result, {"x": np.moveaxis(x, 1, -1) if _is_turned(result.graph.inputs[0]) else x})
    for value in result.graph.outputs:
        found, expected = after[value.name or ""], before[value.name or ""]
        found = np.ascontiguousarray(np.moveaxis(found, -1, 1)) if _is_turned(value) else found
        if options == "exact=true":
            assert found.tobytes() == expected.tobytes()
        else:
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    if options in ("", "inputs=true, outputs=true"):
        _assert_few(model, result)


def _is_turned(value: ir.Value) -> bool:
    return "onnx_passes.layout" in value.metadata_props


def _assert_few(before: ir.Model, after: ir.Model) -> None:
    """Assert that there are no more transposes than before and at inputs and outputs that are images."""
    counts = [sum(node.op_type == "Transpose" for node in model.graph) for model in (before, after)]
    images = [value for value in (*before.graph.inputs, *before.graph.outputs) if len(value.shape or ()) > 2]
    assert counts[1] <= counts[0] + len(images)
