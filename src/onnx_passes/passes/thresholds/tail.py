"""Tails: the elementwise computation between a tensor and a quantizer, one function for each channel."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import rank, same_shape
from onnx_passes.graph.traits import is_elementwise, traits_of
from onnx_passes.ops.collection import definition_of
from onnx_passes.verify.execute import Executor

QUANTIZERS = frozenset({"Quant", "IntQuant", "BipolarQuant", "Trunc"})
_ROUGH = frozenset(
    {"Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Celu", "Elu", "Erf", "Exp", "Log", "Selu", "Sigmoid", "Sinh"}
    | {"Softplus", "Softsign", "Tanh"}
)
"""Functions that are computed by approximation: their last bits may go up and down."""
_MOST_CHANNELS = 2**14
_PER_CHANNEL = 1
"""The axis of the channels of BatchNormalization."""


@dataclass(frozen=True)
class Tail:
    """Nodes in their order, from ``base`` to ``result``, and the axes with their sizes along which parameters vary.

    What has the same parameters is a channel; channels are numbered in the order of the axes.
    """

    base: ir.Value
    nodes: tuple[ir.Node, ...]
    axes: dict[int, int]

    @property
    def channels(self) -> int:
        """Return the number of different functions."""
        return math.prod(self.axes.values())

    @property
    def axis(self) -> int | None:
        """Return the axis of the channels, if it is only one."""
        return next(iter(self.axes)) if len(self.axes) == 1 else None

    @property
    def layout(self) -> tuple[int, ...]:
        """Return the shape of the channels, of the rank of the base."""
        return tuple(self.axes.get(axis, 1) for axis in range(rank(self.base) or 0))

    @property
    def result(self) -> ir.Value:
        """Return what the tail computes."""
        return self.nodes[-1].outputs[0]

    @property
    def is_monotone(self) -> bool:
        """Tell whether every channel only grows, or only falls; true of rounding, of what is rounded correctly."""
        return all(_is_monotone(node) and node.op_type not in _ROUGH for node in self.nodes)

    @property
    def is_nearly_monotone(self) -> bool:
        """Tell whether every channel only grows, or only falls, but for the last bits of functions like Sigmoid."""
        return all(map(_is_monotone, self.nodes))


@dataclass
class _Walk:
    """What was found on the way back from a quantizer."""

    nodes: list[ir.Node] = field(default_factory=list[ir.Node])
    axes: dict[int, int] = field(default_factory=dict[int, int])


def is_quantizer(node: ir.Node | None) -> bool:
    """Tell whether a node rounds to a few levels."""
    return node is not None and node.op_type in QUANTIZERS and definition_of(node) is not None


def find_tail(quantizer: ir.Node, is_integer: Callable[[ir.Value], bool]) -> Tail | str:
    """Walk back from a quantizer as far as all is elementwise; returns why not, if there is nothing to find.

    The tail begins at the farthest integer tensor, or else at the farthest tensor at all.
    """
    walk = _Walk()
    found: Tail | None = None
    farthest: Tail | str = "nothing is elementwise"
    node: ir.Node | None = quantizer
    while node is not None:
        base = _dynamic_input(node)
        reason = base if isinstance(base, str) else _add(walk, node, base)
        if isinstance(base, str) or reason:
            return found or (farthest if walk.nodes else reason)
        tail = Tail(base, tuple(walk.nodes[::-1]), dict(sorted(walk.axes.items())))
        farthest = tail
        if is_integer(base):
            found = tail
        node = base.producer()
    return found or farthest


def _dynamic_input(node: ir.Node) -> ir.Value | str:
    """Return the one input of an elementwise node that is not constant."""
    normalizes = node.op_type == "BatchNormalization" and node.domain == "" and len(node.outputs) == 1
    if not (is_elementwise(node) or normalizes or is_quantizer(node)) or node.op_type == "Cast":
        return f"{node.op_type} is not elementwise"
    dynamic = [value for value in node.inputs if value is not None and constant(value) is None]
    if not dynamic:
        return "its input is constant"
    if len(dynamic) != 1 or dynamic[0].dtype != ir.DataType.FLOAT or node.outputs[0].dtype != ir.DataType.FLOAT:
        return f"{node.op_type} does not depend on one tensor of floats alone"
    if (normalizes or is_quantizer(node)) and dynamic[0] is not node.inputs[0]:
        return f"a parameter of {node.op_type} is computed"
    return dynamic[0]


def _add(walk: _Walk, node: ir.Node, base: ir.Value) -> str:
    """Take a node into the tail, if there are not too many parameters to look at each; returns why not."""
    result = node.outputs[0]
    length = rank(base)
    if length is None or not same_shape(base, result):
        return "its shape is not known"
    axes = dict(walk.axes)
    for value in node.inputs:
        array = None if value is None or value is base else constant(value)
        if array is None or array.size <= 1:
            continue
        if node.op_type == "BatchNormalization":
            found = {_PER_CHANNEL: array.size}
        else:
            found = {length - array.ndim + axis: size for axis, size in enumerate(array.shape) if size > 1}
        axes.update(found)
    if any(axis < 0 for axis in axes):
        return "its parameters have a higher rank"
    if math.prod(axes.values()) > _MOST_CHANNELS or (len(axes) == length and length > 1):
        return "its parameters are different for too many elements"
    walk.axes = axes
    walk.nodes.append(node)
    return ""


def _is_monotone(node: ir.Node) -> bool:
    if is_quantizer(node) or node.op_type == "BatchNormalization" or traits_of(node).monotone:
        return True
    if node.op_type == "Mul":
        return True
    if node.op_type == "Div":
        return constant(node.inputs[1]) is not None
    if node.op_type == "PRelu":
        slope = constant(node.inputs[1])
        return slope is not None and bool(np.all(slope >= 0))
    return False


class Evaluator:
    """Runs a tail in ONNX Runtime on chosen points of each channel: what it says is what the model computes."""

    def __init__(self, tail: Tail, opset_imports: dict[str, int], executor: Executor) -> None:
        self._layout = tail.layout or (1,)
        self._free = next((axis for axis in range(len(self._layout)) if axis not in tail.axes), None)
        first = ir.Value(
            name="points", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([None] * len(self._layout))
        )
        values: dict[ir.Value, ir.Value] = {tail.base: first}
        weights: list[ir.Value] = []
        nodes: list[ir.Node] = []
        for number, node in enumerate(tail.nodes):
            inputs = [self._standing_for(value, values, weights) for value in node.inputs]
            copy = ir.Node(node.domain, node.op_type, inputs, node.attributes.values(), num_outputs=1)
            output = copy.outputs[0]
            output.name, output.type = f"v{number}", ir.TensorType(ir.DataType.FLOAT)
            values[node.outputs[0]] = output
            nodes.append(copy)
        graph = ir.Graph(
            [first], [nodes[-1].outputs[0]], nodes=nodes, initializers=weights, opset_imports=opset_imports, name="tail"
        )
        self._ready = executor.prepare(ir.Model(graph, ir_version=10), engine="onnxruntime")
        self._output = str(nodes[-1].outputs[0].name)

    @staticmethod
    def _standing_for(
        value: ir.Value | None, values: dict[ir.Value, ir.Value], weights: list[ir.Value]
    ) -> ir.Value | None:
        if value is None or value in values:
            return None if value is None else values[value]
        array = constant(value)
        assert array is not None
        weight = ir.Value(name=f"c{len(weights)}", const_value=ir.Tensor(array))
        weight.type, weight.shape = ir.TensorType(ir.DataType.from_numpy(array.dtype)), ir.Shape(array.shape)
        weights.append(weight)
        values[value] = weight
        return weight

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Evaluate points of shape ``[channels, n]``; returns results of the same shape."""
        if self._free is None:
            columns = [self._run(column.reshape(self._layout)).reshape(-1) for column in points.T]
            return np.stack(columns, axis=1)
        laid = np.moveaxis(points.reshape(*self._layout, -1), -1, self._free).squeeze(self._free + 1)
        result = self._run(laid)
        return np.moveaxis(np.expand_dims(result, self._free + 1), self._free, -1).reshape(points.shape)

    def _run(self, points: np.ndarray) -> np.ndarray:
        return self._ready.run({"points": np.ascontiguousarray(points, np.float32)})[self._output]
