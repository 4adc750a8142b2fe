"""The two sides of an application, run on chosen values by whoever runs the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.constants import constant_tensor
from onnx_passes.graph.copy import copy_node
from onnx_passes.verify.proving.facts import Facts
from onnx_passes.verify.proving.sides import Side, shared_sources
from onnx_passes.verify.run.execute import Sample

Copied = dict[ir.Value, ir.Value]
DtypeOf = Callable[[ir.Value], ir.DataType | None]


class SideBySide:
    """Runs sides on arrays for the values that they read; ``dtype_of`` says of which type values are taken to be."""

    def __init__(self, sides: Sequence[Side], facts: Facts, dtype_of: DtypeOf | None = None) -> None:
        copies = Copies(shared_sources(sides), dtype_of)
        self._outputs = [copies.add(side) for side in sides]
        self._ready = facts.executor.prepare(copies.model(facts.model), engine="onnxruntime")

    def __call__(self, arrays: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
        """Return the results of each side for arrays in the order of the sources. Raises ExecutionError."""
        sample: Sample = {f"v{number}": array for number, array in enumerate(arrays)}
        found = self._ready.run(sample)
        return [[found[str(value.name)] for value in values] for values in self._outputs]


class Copies:
    """A model of copied sides, which stays as it is when the nodes that were copied change."""

    def __init__(self, sources: Sequence[ir.Value] = (), dtype_of: DtypeOf | None = None) -> None:
        self._dtype_of = dtype_of or _dtype
        self._weights: list[ir.Value] = []
        self._nodes: list[ir.Node] = []
        self._outputs: dict[ir.Value, None] = {}
        self._names = 0
        self._known: Copied = {value: self._made(value) for value in sources}
        self._inputs = list(self._known.values())

    def model(self, like: ir.Model) -> ir.Model:
        """Return the model, with operator sets and functions of another one."""
        graph = ir.Graph(
            self._inputs,
            list(self._outputs),
            nodes=self._nodes,
            initializers=self._weights,
            opset_imports=dict(like.opset_imports),
            name="sides",
        )
        return ir.Model(graph, ir_version=like.ir_version, functions=list(like.functions.values()))

    def add(self, side: Side) -> list[ir.Value]:
        """Copy a side, and return its results as outputs of the model."""
        known = self._known
        for node in side.nodes:
            if node.outputs[0] in known:
                continue
            inputs = [None if value is None else self._resolve(value, known) for value in node.inputs]
            copy = copy_node(node, inputs)
            self._nodes.append(copy)
            for output, made in zip(node.outputs, copy.outputs, strict=True):
                self._describe(made, output)
                known[output] = made
        results = [self._result(self._resolve(value, known)) for value in side.results]
        self._outputs.update(dict.fromkeys(results))
        return results

    def _resolve(self, value: ir.Value, known: Copied) -> ir.Value:
        if value not in known:
            tensor = constant_tensor(value)
            assert tensor is not None
            made = ir.Value(name=self._name(), type=ir.TensorType(tensor.dtype), shape=ir.Shape(tensor.shape.numpy()))
            made.const_value = tensor
            self._weights.append(made)
            known[value] = made
        return known[value]

    def _result(self, value: ir.Value) -> ir.Value:
        """Give back a value that a node computes."""
        if value.producer() is not None:
            return value
        copy = ir.node("Identity", [value])
        self._nodes.append(copy)
        made = copy.outputs[0]
        made.name, made.type = self._name(), value.type
        made.shape = None if value.shape is None else ir.Shape([None] * len(value.shape))
        return made

    def _made(self, value: ir.Value) -> ir.Value:
        made = ir.Value()
        self._describe(made, value)
        return made

    def _describe(self, made: ir.Value, value: ir.Value) -> None:
        made.name = "" if value.name == "" and value.producer() is not None else self._name()
        dtype = self._dtype_of(value)
        made.type = None if dtype is None else ir.TensorType(dtype)
        # Sizes are others than in the model; operators for channels are expanded by the number of axes.
        made.shape = None if value.shape is None else ir.Shape([None] * len(value.shape))

    def _name(self) -> str:
        self._names += 1
        return f"v{self._names - 1}"


def _dtype(value: ir.Value) -> ir.DataType | None:
    return value.dtype
