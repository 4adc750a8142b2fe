"""Nodes that decide between levels: their result jumps where what they read moves by the last bit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.fragment.assembly import Assembly
from onnx_passes.graph.constants import constant, constant_tensor, is_constant
from onnx_passes.graph.traits import is_elementwise, traits_of
from onnx_passes.ops.quantizer import quantizer_of
from onnx_passes.verify.run.execute import Executor, Sample

_UNITS = 4
_FLOATS = frozenset({ir.DataType.FLOAT16, ir.DataType.FLOAT, ir.DataType.DOUBLE})

Corner = Mapping[int, int]
"""Which inputs of a node are moved, and whether up or down."""
Range = tuple[np.ndarray, np.ndarray]
"""The least and the greatest level that a node may choose."""


def decisions_of(graph: ir.Graph) -> list[ir.Node]:
    """List the nodes that decide between levels of what is computed from inputs, in the order of the graph.

    Quantizers of constants are among them: they decide between the levels of weights.
    """
    varying: set[ir.Value | None] = set(graph.inputs)
    found: list[ir.Node] = []
    for node in graph:
        varies = any(value in varying for value in node.inputs)
        if varies:
            varying.update(node.outputs)
        if (varies or quantizes_constant(node)) and decides(node):
            found.append(node)
    return found


def values_behind(node: ir.Node) -> Iterator[ir.Value]:
    """Yield the level that a node chooses, and what is computed from nothing but it and constants, by element."""
    level: ir.Value | None = node.outputs[0]
    while level is not None:
        yield level
        level = _alone_from(level)


def _alone_from(value: ir.Value) -> ir.Value | None:
    """Return what is computed from a value and constants, if nobody else uses it."""
    users = [user for user, _ in value.uses()]
    if len(users) != 1 or value.is_graph_output():
        return None
    user = users[0]
    others = [given for given in user.inputs if given is not None and given is not value]
    is_plain = is_elementwise(user) and not decides(user) and all(map(is_constant, others))
    return user.outputs[0] if is_plain else None


def quantizes_constant(node: ir.Node) -> bool:
    """Return whether a node quantizes a constant."""
    return quantizer_of(node) is not None and constant_tensor(node.inputs[0]) is not None


def quantized_constants(nodes: Sequence[ir.Node]) -> Sample:
    """Return the constants that nodes quantize, by name."""
    values = [node.inputs[0] for node in nodes if quantizes_constant(node)]
    return {str(value.name): array for value in values if value is not None and (array := constant(value)) is not None}


def last_places(arrays: Sample) -> Sample:
    """Return how far a quotient may be off that is made of arrays: a few units in the last place."""
    return {name: _UNITS * np.spacing(np.abs(array)).astype(np.float64) for name, array in arrays.items()}


def decides(node: ir.Node) -> bool:
    """Return whether the result of a node jumps where what it reads moves by the last bit."""
    if node.op_type == "Cast" and node.domain == "":
        to = ir.DataType(node.attributes.get_int("to", 0))
        given = None if node.inputs[0] is None else node.inputs[0].dtype
        return not to.is_floating_point() and (given is None or given in _FLOATS)
    quantizer = quantizer_of(node)
    return quantizer.decides if quantizer is not None else traits_of(node).decides


def moved_inputs(node: ir.Node) -> list[ir.Value]:
    """List the inputs of a node that it decides by."""
    return [value for index in corners(node)[0] if (value := node.inputs[index]) is not None]


def corners(node: ir.Node) -> tuple[Corner, Corner]:
    """Return how inputs are moved to come to both sides of an edge."""
    if traits_of(node).converse:
        return {0: 1, 1: -1}, {0: -1, 1: 1}
    return {0: 1}, {0: -1}


def decide_alike(old: ir.Node, new: ir.Node) -> bool:
    """Return whether two nodes choose the same level wherever they read the same values."""
    if (old.domain, old.op_type, len(old.inputs)) != (new.domain, new.op_type, len(new.inputs)):
        return False
    if {k: a.value for k, a in old.attributes.items()} != {k: a.value for k, a in new.attributes.items()}:
        return False
    moved = corners(old)[0]
    pairs = [pair for index, pair in enumerate(zip(old.inputs, new.inputs, strict=True)) if index not in moved]
    return all(a is b or _hold_the_same(a, b) for a, b in pairs)


def _hold_the_same(a: ir.Value | None, b: ir.Value | None) -> bool:
    left, right = constant(a), constant(b)
    return left is not None and right is not None and np.array_equal(left, right)


def not_below_last_places(values: Sample, bounds: Sample) -> Sample:
    """Let bounds of what rounding reaches be no less than the last place: few runs may happen not to show it."""
    found = dict(bounds)
    for name, bound in bounds.items():
        array = values.get(name)
        if array is not None and array.dtype.kind == "f" and bound.any():
            with np.errstate(invalid="ignore"):
                found[name] = np.maximum(bound, np.nan_to_num(2 * np.spacing(np.abs(array)).astype(np.float64)))
    return found


class LevelChoices:
    """The deciding nodes of a model on their own: which levels they choose if what they read is moved a little.

    ``run`` holds the values that they read, by name.
    """

    def __init__(self, model: ir.Model, nodes: Sequence[ir.Node], run: Sample, executor: Executor) -> None:
        self._nodes = nodes
        self._numbers = {node: number for number, node in enumerate(nodes)}
        self._feeds: list[tuple[str, ir.Value, int]] = []
        # Arrays of a run may be of wider types than the values are declared to have.
        copies = Assembly(shapes="none", dtype_of=lambda _: None)
        outputs: list[ir.Value] = []
        for node in nodes:
            for corner in corners(node):
                given = [
                    None if value is None else self._given(index, value, copies, corner, run)
                    for index, value in enumerate(node.inputs)
                ]
                outputs.append(copies.copy(node, given).outputs[0])
        self._outputs = [str(value.name) for value in outputs]
        self._ready = executor.prepare(copies.model(model, outputs), engine="onnxruntime")

    def _given(self, index: int, value: ir.Value, copies: Assembly, corner: Corner, run: Sample) -> ir.Value:
        """Return what a corner reads in the place of an input: a constant, or what is fed."""
        tensor = constant_tensor(value)
        if tensor is not None and not (index == 0 and str(value.name) in run):
            return copies.weight(tensor)
        made = copies.feed(value, ir.Value(type=ir.TensorType(ir.DataType.from_numpy(run[str(value.name)].dtype))))
        self._feeds.append((str(made.name), value, corner.get(index, 0)))
        return made

    def around(self, values: Sample, bounds: Sample, nodes: Sequence[ir.Node] | None = None) -> dict[ir.Node, Range]:
        """Return the least and the greatest level of nodes, by default all, if what they read moves by its bounds."""
        asked = {self._numbers[node]: node for node in (self._nodes if nodes is None else nodes)}
        feeds: Sample = {}
        for name, value, sign in self._feeds:
            read = str(value.name)
            bound, array = bounds.get(read), values[read]
            feeds[name] = array
            if sign and bound is not None:
                feeds[name] = (array.astype(np.float64) + sign * bound).astype(array.dtype)
        names = {node: self._outputs[2 * number : 2 * number + 2] for number, node in asked.items()}
        found = self._ready.run(feeds, only=[name for pair in names.values() for name in pair])
        ends = {node: [found[name] for name in pair] for node, pair in names.items()}
        return {node: (np.minimum(*pair), np.maximum(*pair)) for node, pair in ends.items()}
