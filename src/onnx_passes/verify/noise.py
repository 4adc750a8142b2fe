"""How much rounding matters: a model is run several times, each time with other errors in the last bit of every result.

This is stochastic arithmetic: what a result loses is estimated by what it moves when every operation on its way errs at
random by as much as its own rounding may. A sum of n products errs in proportion to √n and to the sum of magnitudes,
whatever the order in which it is computed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import static_shape
from onnx_passes.graph.traits import traits_of
from onnx_passes.verify.execute import ExecutionError, Executor, Sample
from onnx_passes.verify.infer_types import infer_types

_MARGIN = 4.0
"""A result may be off by so many times the greatest error seen."""
_RUNS = 8
_TERMS = 256
"""Terms of a sum whose length nobody knows."""
_PRECISION = {ir.DataType.FLOAT16: 2.0**-10, ir.DataType.FLOAT: 2.0**-23, ir.DataType.DOUBLE: 2.0**-52}
_SUMS = frozenset(
    {"AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "Einsum", "Gemm", "GlobalAveragePool", "MatMul"}
    | {"Mean", "ReduceMean", "ReduceSum", "Sum"}
)
"""Operators that add up products of their inputs."""
_CHOICES = frozenset({"Clip", "GlobalMaxPool", "MaxPool", "ReduceMax", "ReduceMin", "TopK", "Where"})
"""Operators that return an input as it is."""
_MEAN = 3
"""The input of BatchNormalization that is subtracted."""


def rounding_bounds(
    model: ir.Model,
    wanted: Sequence[ir.Value],
    samples: Sequence[Sample],
    executor: Executor,
    *,
    at: Collection[ir.Node] | None = None,
) -> list[Sample] | None:
    """Return how far rounding may move values of a model, element by element, for each sample.

    The model is used up. Only the results of nodes ``at`` err, if given; else all do, and inputs as well. Returns
    nothing if the model cannot be run so.
    """
    names = [str(value.name) for value in wanted]
    try:
        quiet = executor.prepare(model, also=list(wanted), engine="onnxruntime")
        expected = [quiet.run(sample, only=names) for sample in samples]
        infer_types(model)
        noisy = _Noisy(model, None if at is None else frozenset(at)).apply(wanted)
        ready = executor.prepare(model, also=noisy, engine="onnxruntime")
        outputs = [str(value.name) for value in noisy]
        return [
            _spread(known, [list(ready.run(sample, only=outputs).values()) for _ in range(_RUNS)])
            for known, sample in zip(expected, samples, strict=True)
        ]
    except (ExecutionError, ModelError):
        return None


def _spread(expected: Sample, runs: Sequence[Sequence[np.ndarray]]) -> Sample:
    found: Sample = {}
    for place, (name, array) in enumerate(expected.items()):
        if array.dtype.kind != "f":
            continue
        exact = array.astype(np.float64)
        found[name] = np.zeros(exact.shape)
        with np.errstate(invalid="ignore"):
            for run in runs:
                moved = np.abs(run[place].astype(np.float64) - exact)
                np.maximum(found[name], np.where(np.isfinite(moved), moved, 0), out=found[name])
            # Few runs may happen to show less than the last bit.
            last_bit = np.where(np.isfinite(array), np.spacing(np.abs(array)), 0)
        found[name] = np.where(found[name] > 0, _MARGIN * found[name] + last_bit, 0)
    return found


class _Noisy:
    """Puts random errors behind the nodes of a graph."""

    def __init__(self, model: ir.Model, at: frozenset[ir.Node] | None) -> None:
        self.graph = model.graph
        self.at = at
        self.count = 0
        self.noisy: dict[ir.Value, ir.Value] = {}

    def apply(self, wanted: Sequence[ir.Value]) -> list[ir.Value]:
        """Let every reader see values with errors; returns what stands for the wanted ones, which are outputs."""
        nodes = list(self.graph)
        if self.at is None:
            for value in self.graph.inputs:
                self._err(value, value, 1.0)
        for node in nodes:
            if (self.at is None or node in self.at) and not _is_exact(node):
                self._behind(node)
        for value, noisy in self.noisy.items():
            for user, index in value.uses():
                if not (user.name or "").startswith(_MARK):
                    user.replace_input_with(index, noisy)
        found = [self.noisy.get(value) or self._node("Identity", [value], value) for value in wanted]
        self.graph.outputs[:] = found
        return found

    def _behind(self, node: ir.Node) -> None:
        units = 1 + math.sqrt(_terms(node)) / 16
        for output in node.outputs:
            if output.dtype not in _PRECISION or not output.name:
                continue
            if node.op_type in _SUMS and node.domain == "":
                self._err(output, self._magnitude(node, output), units)
            else:
                self._err(output, output, units)

    def _magnitude(self, node: ir.Node, like: ir.Value) -> ir.Value:
        """Compute the sum of the magnitudes of what a node sums up."""
        inputs: list[ir.Value | None] = []
        for index, value in enumerate(node.inputs):
            if value is None or value.dtype not in _PRECISION:
                inputs.append(value)
                continue
            sign = -1 if node.op_type == "BatchNormalization" and index == _MEAN else 1
            inputs.append(self._size(value, sign))
        return self._node(node.op_type, inputs, like, list(node.attributes.values()))

    def _size(self, value: ir.Value, sign: int) -> ir.Value:
        """Return the magnitudes of a value, or these negated."""
        array = constant(value)
        if array is None:
            size = self._node("Abs", [value], value)
            return size if sign > 0 else self._node("Neg", [size], value)
        self.count += 1
        held = ir.Value(name=f"{_MARK}{self.count}", type=value.type, const_value=ir.Tensor(sign * np.abs(array)))
        held.shape = ir.Shape(array.shape)
        self.graph.register_initializer(held)
        return held

    def _err(self, value: ir.Value, size: ir.Value, units: float) -> None:
        """Add a random part of a size to a value, of so many units in the last place at most."""
        if value.dtype is None or value.dtype not in _PRECISION:
            return
        most = units * _PRECISION[value.dtype]
        attributes = [
            ir.AttrInt64("dtype", ir.DataType.FLOAT.value),
            ir.AttrFloat32("low", -most),
            ir.AttrFloat32("high", most),
            ir.AttrFloat32("seed", float(self.count)),
        ]
        part = self._node("RandomUniformLike", [value], value, attributes)
        part.type = ir.TensorType(ir.DataType.FLOAT)
        if value.dtype is not ir.DataType.FLOAT:
            part = self._node("Cast", [part], value, [ir.AttrInt64("to", value.dtype.value)])
        error = self._node("Mul", [size, part], value)
        self.noisy[value] = self._node("Add", [value, error], value)

    def _node(
        self, operator: str, inputs: Sequence[ir.Value | None], like: ir.Value, attributes: Sequence[ir.Attr] = ()
    ) -> ir.Value:
        self.count += 1
        name = f"{_MARK}{self.count}"
        made = ir.Node("", operator, inputs, attributes, name=name)
        made.outputs[0].name = name
        made.outputs[0].type = like.type
        # The engine sorts nodes itself.
        self.graph.append(made)
        return made.outputs[0]


_MARK = "//noise"


def _is_exact(node: ir.Node) -> bool:
    traits = traits_of(node)
    moves = traits.kind == "movement" or node.op_type in _CHOICES
    return moves or (traits.exact and traits.kind == "elementwise")


def _terms(node: ir.Node) -> int:
    """Return how many terms an element of the result sums up."""
    if node.domain != "":
        return 1
    match node.op_type:
        case "MatMul" | "Gemm" | "Conv" | "ConvTranspose":
            shape = static_shape(node.inputs[1])
            if shape is None or len(shape) < 2:
                return _TERMS if shape is None else math.prod(shape)
            if node.op_type == "MatMul":
                return shape[-2]
            if node.op_type == "Gemm":
                return shape[1 if node.attributes.get_int("transB", 0) else 0]
            return math.prod(shape[1:]) if node.op_type == "Conv" else shape[0] * math.prod(shape[2:])
        case "Einsum" | "AveragePool" | "GlobalAveragePool":
            return _TERMS
        case _ if traits_of(node).kind == "reduction" or node.op_type.endswith(("Normalization", "Softmax")):
            given = static_shape(next(iter(node.inputs), None))
            return max(given) if given else _TERMS
        case _:
            return 1
