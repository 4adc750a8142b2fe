"""How much rounding matters: a model is run several times, each time with other errors in the last bit of every result.

This is stochastic arithmetic: what a result loses is estimated by what it moves when every operation on its way errs at
random by as much as its own rounding may. A sum of n products errs in proportion to √n and to the sum of magnitudes,
whatever the order in which it is computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from onnx_passes.core.errors import ModelError
from onnx_passes.core.walk import all_nodes, nested_graphs
from onnx_passes.graph.constants import constant
from onnx_passes.graph.copy import copy_node
from onnx_passes.ops.facts.roundings import Positions, centres, is_exact, is_subtracted, sums_up, terms_summed
from onnx_passes.ops.facts.traits import decides_size
from onnx_passes.verify.comparison.ulp import chunks
from onnx_passes.verify.run.element_types import infer_types
from onnx_passes.verify.run.execute import Executable, ExecutionError, Executor, Sample

Values = dict[ir.Value, ir.Value]

_MARGIN = 4.0
"""A result may be off by so many times the greatest error seen."""
_RUNS = 10
_LANES = 8
"""A sum of n terms errs by the last bit, and √n of these divided by this: most sums are kept in several parts."""
_PRECISION = {ir.DataType.FLOAT16: 2.0**-10, ir.DataType.FLOAT: 2.0**-23, ir.DataType.DOUBLE: 2.0**-52}
_MODERATE = {ir.DataType.FLOAT16: 2.0**8, ir.DataType.FLOAT: 2.0**100, ir.DataType.DOUBLE: 2.0**900}
"""Numbers to which an error can be added without making an infinity."""
_BOOL = ir.Value(type=ir.TensorType(ir.DataType.BOOL))
_INDEX = ir.Value(type=ir.TensorType(ir.DataType.INT64))
_NOT_RANDOM, _APART = 8, 5
_WITHOUT_UNIFORM = 22
"""The version from which on ONNX Runtime has no kernel for uniform numbers."""


def rounding_bounds(
    model: ir.Model,
    wanted: Sequence[ir.Value],
    samples: Sequence[Sample],
    executor: Executor,
    *,
    at: Collection[ir.Node] | None = None,
    enough: Callable[[int, Sample], bool] = lambda place, bound: False,
) -> list[Sample] | None:
    """Return how far rounding may move values of a model, element by element, for each sample.

    The model is used up. Only the results of nodes ``at`` err, if given; else all do, and inputs as well. The runs
    of a sample end as soon as their bound, which only grows, is ``enough``. Returns None if the model does not run.
    """
    bounds: list[Sample] = []
    try:
        noise = Noise(model, wanted, executor, at=at)
        for place, sample in enumerate(samples):
            bound: Sample = {}
            for bound in noise.growing(sample):
                if enough(place, bound):
                    break
            bounds.append(bound)
    except (ExecutionError, ModelError):
        return None
    return bounds


class Noise:
    """A model ready to run with random errors, beside the same without; the model is used up.

    Results err by their own last place, or by that of a shorter type if its ``unit`` is given. Of the model with errors
    nothing else is computed, so that it takes hardly more memory than the model. Raises ExecutionError and ModelError.
    """

    def __init__(
        self,
        model: ir.Model,
        wanted: Sequence[ir.Value],
        executor: Executor,
        *,
        at: Collection[ir.Node] | None = None,
        unit: float = 0.0,
    ) -> None:
        infer_types(model)
        self._ready = executor.prepare(model, also=wanted, engine="onnxruntime")
        erring = _Noisy(model, None if at is None else frozenset(at), unit).apply(wanted)
        self._names = {str(value.name): str(copy.name) for value, copy in erring.items()}
        self._noisy: Executable | None = None
        if erring:
            model.graph.outputs[:] = list(erring.values())
            RemoveUnusedNodesPass()(model)
            self._noisy = executor.prepare(model, engine="onnxruntime")

    def bound(self, sample: Sample) -> Sample:
        """Return how far rounding may move the values that it reaches on a sample."""
        *_, last = self.growing(sample)
        return last

    def growing(self, sample: Sample) -> Iterator[Sample]:
        """Yield what is known of the bound after one more run each: it grows, and who has seen enough may stop."""
        if self._noisy is None:
            yield {}
            return
        values = self._ready.run(sample, only=list(self._names))
        most: Sample = {}
        for _ in range(_RUNS):
            found = self._noisy.run(sample, only=list(self._names.values()))
            for name, copy in self._names.items():
                far = _distance(values[name], found[copy])
                most[name] = np.maximum(most[name], far, out=far) if name in most else far
            yield {name: _with_last_bit(far, values[name]) for name, far in most.items()}


def _distance(values: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return how far numbers are from others; zero where either is none or infinite."""
    far = np.empty(values.size)
    for start, a, b in chunks(values, others):
        with np.errstate(invalid="ignore"):
            part = np.abs(b.astype(np.float64) - a.astype(np.float64))
        far[start : start + a.size] = np.nan_to_num(part, posinf=0.0)
    return far.reshape(values.shape)


def _with_last_bit(far: np.ndarray, array: np.ndarray) -> np.ndarray:
    """Return what is more than the farthest that values moved: few runs may happen to show less than the last bit."""
    bound = np.empty(far.size)
    for start, distance, values in chunks(far, array):
        with np.errstate(invalid="ignore"):
            last_bit = np.where(np.isfinite(values), np.spacing(np.abs(values)), 0)
        bound[start : start + values.size] = np.where(distance > 0, _MARGIN * distance + last_bit, 0)
    return bound.reshape(far.shape)


class _Noisy:
    """Puts a copy with random errors beside every node of a graph that errors reach."""

    def __init__(self, model: ir.Model, at: frozenset[ir.Node] | None, unit: float = 0.0) -> None:
        self.unit = unit
        self.opset = model.opset_imports.get("", 1)
        self.graph = model.graph
        self.at = at
        self.count = 0
        self.known: Values = {}

    def apply(self, wanted: Sequence[ir.Value]) -> Values:
        """Return the copies of wanted values that errors reach."""
        nodes = list(self.graph)
        if self.at is None:
            for value in self.graph.inputs:
                self._err(value, value, value, 1.0)
        positions = Positions()
        for node in nodes:
            exact = self._is_exact_in_type(node, positions) if self.unit else is_exact(node)
            self._beside(node, errs=(self.at is None or node in self.at) and not exact)
        return {value: self.known[value] for value in wanted if value in self.known and value.dtype in _PRECISION}

    def _is_exact_in_type(self, node: ir.Node, positions: Positions) -> bool:
        """Return whether a node is exact in a shorter type: gathered weights are rounded, positions are not."""
        if positions.only(node):
            return True
        return is_exact(node) and not (node.op_type == "Gather" and constant(node.inputs[0]) is not None)

    def _beside(self, node: ir.Node, *, errs: bool) -> None:
        # An integer that flips, such as a size, is no matter of what a type resolves.
        stops = bool(self.unit) and node.op_type == "Cast" and node.outputs[0].dtype not in _PRECISION
        touched = not stops and any(value in self.known for value in _erring_inputs(node))
        units = 1 + math.sqrt(terms_summed(node)) / _LANES
        centred = errs and centres(node) and node.inputs[0] is not None
        known = self._erring_first(node, units) if centred else self.known
        copy = self._again(node, known) if touched or centred else node
        for output, same in zip(node.outputs, copy.outputs, strict=True):
            if errs and output.name and output.dtype in _PRECISION:
                self._err(output, same, self._magnitude(node, output) if sums_up(node) else same, units)
            elif touched:
                self.known[output] = same

    def _erring_first(self, node: ir.Node, units: float) -> Values:
        """Let the first input of a node err, for this node only."""
        first = node.inputs[0]
        assert first is not None
        copy = self.known.get(first, first)
        return {**self.known, first: self._erring(copy, copy, first, units)}

    def _again(self, node: ir.Node, known: Mapping[ir.Value, ir.Value]) -> ir.Node:
        """Copy a node for values with errors, in its subgraphs as well."""
        inputs = [_with_error(node, index, value, known) for index, value in enumerate(node.inputs)]
        self.count += 1
        attributes = [_cloned(attribute, known, self.count) for attribute in node.attributes.values()]
        made = copy_node(node, inputs, attributes, name=f"{_MARK}{self.count}")
        for place, (old, new) in enumerate(zip(node.outputs, made.outputs, strict=True)):
            new.name, new.type = (f"{made.name}.{place}" if old.name else ""), old.type
        self.graph.append(made)
        return made

    def _magnitude(self, node: ir.Node, like: ir.Value) -> ir.Value:
        """Compute the sum of the magnitudes of what the copy of a node sums up."""
        inputs: list[ir.Value | None] = []
        for index, value in enumerate(node.inputs):
            if value is None or value.dtype not in _PRECISION:
                inputs.append(value)
                continue
            sign = -1 if is_subtracted(node, index) else 1
            inputs.append(self._size(self.known.get(value, value), sign))
        return self._node(node.op_type, inputs, like, list(node.attributes.values()))

    def _size(self, value: ir.Value, sign: int) -> ir.Value:
        """Return the magnitudes of a value, or these negated."""
        array = constant(value)
        if array is None:
            size = self._node("Abs", [value], value)
            return size if sign > 0 else self._node("Neg", [size], value)
        return self._hold(sign * np.abs(array))

    def _err(self, value: ir.Value, copy: ir.Value, size: ir.Value, units: float) -> None:
        """Add a random part of a size to the copy of a value, of so many units in the last place at most."""
        if value.dtype is None or value.dtype not in _PRECISION:
            return
        if self.unit:
            size = self._moderate(size, value)
        self.known[value] = self._erring(copy, size, value, units)

    def _erring(self, copy: ir.Value, size: ir.Value, value: ir.Value, units: float) -> ir.Value:
        """Add a random part of a size to a copy of a value."""
        if value.dtype is None or value.dtype not in _PRECISION:
            return copy
        error = self._node("Mul", [size, self._part(copy, units * max(self.unit, _PRECISION[value.dtype]))], value)
        return self._node("Add", [copy, error], value)

    def _moderate(self, size: ir.Value, like: ir.Value) -> ir.Value:
        """Leave out infinities and what is next to them, such as masks: an error makes NaN of them."""
        assert like.dtype is not None
        for operator, sign in (("Min", 1), ("Max", -1)):
            bound = sign * _MODERATE[like.dtype]
            size = self._node(operator, [size, self._hold(np.array(bound, like.dtype.numpy()))], like)
        return size

    def _hold(self, array: np.ndarray) -> ir.Value:
        self.count += 1
        tensor = ir.Tensor(array)
        held = ir.Value(name=f"{_MARK}{self.count}", type=ir.TensorType(tensor.dtype), const_value=tensor)
        held.shape = ir.Shape(array.shape)
        self.graph.register_initializer(held)
        return held

    def _part(self, value: ir.Value, most: float) -> ir.Value:
        """Compute random numbers in the shape of a value."""
        if self.opset >= _WITHOUT_UNIFORM:
            return self._drawn(value, most)
        attributes = [
            ir.AttrInt64("dtype", ir.DataType.FLOAT.value),
            ir.AttrFloat32("low", -most),
            ir.AttrFloat32("high", most),
            ir.AttrFloat32("seed", float(self._seed())),
        ]
        part = self._node("RandomUniformLike", [value], value, attributes)
        part.type = ir.TensorType(ir.DataType.FLOAT)
        if value.dtype is ir.DataType.FLOAT or value.dtype is None:
            return part
        return self._cast(part, value.dtype)

    def _seed(self) -> int:
        return self.count * 2654435761 % 2**24

    def _drawn(self, value: ir.Value, most: float) -> ir.Value:
        """Compute one of eight numbers at random: what is left if each of three, which differ in size, may be dropped.

        They are made of the value, or else the engine would fold them into a constant.
        """
        ones = self._cast(self._node("Equal", [value, value], _BOOL), ir.DataType.FLOAT)
        # The first few numbers that are drawn are nearly the same in every run, and any place of some is in step with
        # itself: each is taken from another place.
        flat = self._node("Reshape", [ones, self._hold(np.array([-1]))], ones)
        longer = [self._hold(np.ones(_NOT_RANDOM, np.float32)), flat, self._hold(np.ones(3 * _APART, np.float32))]
        ones = self._node("Concat", longer, ones, [ir.AttrInt64("axis", 0)])
        half, training = self._hold(np.array(0.5, np.float32)), self._hold(np.array(True))
        total = self._hold(np.array(-1.75 / 2 * most, np.float32))
        for bit in range(3):
            weight = self._node("Mul", [ones, self._hold(np.array(most / 2 / 2**bit, np.float32))], ones)
            seed = [ir.AttrInt64("seed", self._seed())]
            drawn = self._node("Dropout", [weight, half, training], ones, seed)
            ends = [self._hold(np.array([end])) for end in (_NOT_RANDOM + bit * _APART, (bit - 3) * _APART)]
            total = self._node("Add", [self._node("Slice", [drawn, *ends], ones), total], ones)
        shape = self._node("Shape", [value], _INDEX)
        part = self._node("Reshape", [total, shape], ones, [ir.AttrInt64("allowzero", 1)])
        return part if value.dtype in (ir.DataType.FLOAT, None) else self._cast(part, value.dtype)

    def _cast(self, value: ir.Value, dtype: ir.DataType) -> ir.Value:
        made = self._node("Cast", [value], value, [ir.AttrInt64("to", dtype.value)])
        made.type = ir.TensorType(dtype)
        return made

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


def _erring_inputs(node: ir.Node) -> Iterator[ir.Value]:
    """Yield the values a node reads, in its subgraphs as well, without those that decide about shapes."""
    for each in (node, *(inner for graph in nested_graphs(node) for inner in all_nodes(graph))):
        for index, value in enumerate(each.inputs):
            if value is not None and not decides_size(each, index):
                yield value


def _with_error(
    node: ir.Node, index: int, value: ir.Value | None, known: Mapping[ir.Value, ir.Value]
) -> ir.Value | None:
    """Return the copy of an input that errs; sizes stay exact, since results of other shapes cannot be compared."""
    return value if value is None or decides_size(node, index) else known.get(value, value)


def _cloned(attribute: ir.Attr, known: Mapping[ir.Value, ir.Value], number: int) -> ir.Attr:
    """Copy a subgraph, with what it reads from outside replaced, and results of its own; other attributes stay."""
    if attribute.is_ref() or attribute.type is not ir.AttributeType.GRAPH:
        return attribute
    graph = attribute.as_graph().clone(allow_outer_scope_values=True)
    for inner in all_nodes(graph):
        for index, value in enumerate(inner.inputs):
            inner.replace_input_with(index, _with_error(inner, index, value, known))
        for value in inner.outputs:
            value.name = f"{value.name}{_MARK}{number}" if value.name else value.name
    return ir.AttrGraph(attribute.name, graph)
