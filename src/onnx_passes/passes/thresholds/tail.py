"""Tails: the elementwise computation between a tensor and a quantizer, one function for each channel."""

from __future__ import annotations

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
_PER_CHANNEL = 1
"""The axis of the channels of BatchNormalization."""


@dataclass(frozen=True)
class Tail:
    """Nodes in their order, from ``base`` to ``result``; parameters differ along ``axis`` at most."""

    base: ir.Value
    nodes: tuple[ir.Node, ...]
    axis: int | None
    channels: int

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
    farthest: Tail | str = "its input is constant"
    node: ir.Node | None = quantizer
    while node is not None:
        base = _dynamic_input(node)
        if isinstance(base, str) or not _add(walk, node, base):
            break
        axis, channels = next(iter(walk.axes.items()), (None, 1))
        tail = Tail(base, tuple(walk.nodes[::-1]), axis, channels)
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
    if len(dynamic) != 1 or dynamic[0].dtype != ir.DataType.FLOAT:
        return f"{node.op_type} does not depend on one tensor of floats alone"
    if (normalizes or is_quantizer(node)) and dynamic[0] is not node.inputs[0]:
        return f"a parameter of {node.op_type} is computed"
    return dynamic[0]


def _add(walk: _Walk, node: ir.Node, base: ir.Value) -> bool:
    """Take a node into the tail, if its parameters vary along the same axis as those before."""
    result = node.outputs[0]
    length = rank(base)
    if length is None or not same_shape(base, result) or result.dtype != ir.DataType.FLOAT:
        return False
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
    if len(axes) > 1 or any(axis < 0 for axis in axes):
        return False
    walk.axes = axes
    walk.nodes.append(node)
    return True


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
        length = rank(tail.base)
        assert length is not None
        self._axis = tail.axis
        self._rank = max(length, 1)
        first = ir.Value(name="points", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([None] * self._rank))
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
        channels, count = points.shape
        shape = [1] * self._rank
        if self._axis is None:
            shape[0] = channels * count
            return self._run(points.reshape(shape)).reshape(points.shape)
        if self._rank == 1:
            columns = [self._run(points[:, index]) for index in range(count)]
            return np.stack(columns, axis=1) if columns else points
        free = 0 if self._axis else self._rank - 1
        shape[self._axis], shape[free] = channels, count
        laid = points if self._axis < free else points.T
        result = self._run(laid.reshape(shape)).reshape(laid.shape)
        return result if self._axis < free else result.T

    def _run(self, points: np.ndarray) -> np.ndarray:
        return self._ready.run({"points": np.ascontiguousarray(points, np.float32)})[self._output]
