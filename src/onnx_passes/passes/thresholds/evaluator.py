"""Run a tail on chosen points."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.constants import constant
from onnx_passes.graph.copy import copy_node
from onnx_passes.passes.thresholds.tail import Tail
from onnx_passes.verify.run.execute import Executor


class Evaluator:
    """Runs a tail in ONNX Runtime on chosen points of each channel: what it says is what the model computes."""

    def __init__(self, tail: Tail, opset_imports: dict[str, int], executor: Executor) -> None:
        self._layout = tail.layout or (1,)
        self._free = next((axis for axis in range(len(self._layout)) if axis not in tail.axes), None)
        self._weights: list[ir.Value] = []
        first = self._typed(ir.Value(name="points"))
        values: dict[ir.Value, ir.Value] = {tail.base: first}
        nodes: list[ir.Node] = []
        for number, node in enumerate(tail.nodes):
            inputs = [self._standing_for(value, values) for value in node.inputs]
            copy = copy_node(node, inputs)
            output = self._typed(copy.outputs[0])
            output.name = f"v{number}"
            values[node.outputs[0]] = output
            nodes.append(copy)
        graph = ir.Graph(
            [first],
            [nodes[-1].outputs[0]],
            nodes=nodes,
            initializers=self._weights,
            opset_imports=opset_imports,
            name="tail",
        )
        self._ready = executor.prepare(ir.Model(graph, ir_version=10), engine="onnxruntime")
        self._output = str(nodes[-1].outputs[0].name)

    def _typed(self, value: ir.Value) -> ir.Value:
        value.type, value.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape([None] * len(self._layout))
        return value

    def _standing_for(self, value: ir.Value | None, values: dict[ir.Value, ir.Value]) -> ir.Value | None:
        if value is None or value in values:
            return None if value is None else values[value]
        array = constant(value)
        assert array is not None
        weight = ir.Value(name=f"c{len(self._weights)}", const_value=ir.Tensor(array))
        weight.type, weight.shape = ir.TensorType(ir.DataType.from_numpy(array.dtype)), ir.Shape(array.shape)
        self._weights.append(weight)
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
