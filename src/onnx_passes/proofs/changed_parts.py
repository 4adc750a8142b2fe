"""What differs between two models, as small pairs of models: windows around what is not the same.

Values that are computed by the same operators from the same are the same, from the inputs on. From the outputs inward,
two values are the same if they are computed by the same operator and its inputs are; where that is not so, a window
begins. It reaches back to values that are the same, or that nodes compute which the alignment of both graphs pairs:
those are its variables, and have to be shown to be the same as well.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir

from onnx_passes.core.errors import UsageError
from onnx_passes.graph.alignment import Alignment
from onnx_passes.graph.constants import constant_tensor
from onnx_passes.graph.copy import copy_node
from onnx_passes.graph.hashing.content import Contents
from onnx_passes.graph.hashing.fingerprint import structural_hash
from onnx_passes.graph.shapes import static_shape
from onnx_passes.proofs.algebra import UnsupportedError

_MOST_NODES = 60
_SAME, _PAIR = "same", "pair"
Pair = tuple[ir.Value, ir.Value]


@dataclass
class ChangedPart:
    """A value that is computed in two ways: by these nodes before and after, from variables that both have.

    ``assumed`` are the variables that still have to be shown to be the same.
    """

    before: ir.Value
    after: ir.Value
    removed: list[ir.Node] = field(default_factory=list[ir.Node])
    added: list[ir.Node] = field(default_factory=list[ir.Node])
    assumed: list[Pair] = field(default_factory=list[Pair])
    models: tuple[ir.Model, ir.Model] | None = None


class Comparison:
    """Two models, what is the same in them, and the windows around what is not.

    ``distrusted`` are pairs of values that correspond, but are not the same: windows go on behind them.
    """

    def __init__(self, before: ir.Model, after: ir.Model) -> None:
        self.before, self.after = before, after
        self._contents = Contents()
        self._alignment = Alignment(before.graph, after.graph, self._contents)
        self._keys: dict[Hashable, int] = {}
        self._numbers: dict[ir.Value, int] = {}
        self._operators: dict[ir.Node, Hashable] = {}
        names = {other: value for value, other in self._alignment.inputs if value is not None and other is not None}
        for model in (before, after):
            functions = {key: structural_hash(function) for key, function in model.functions.items()}
            for value in model.graph.inputs:
                self._numbers[value] = self._number(("input", names.get(value, value)))
            for node in model.graph:
                self._enter(node, functions)
        self.distrusted: set[Pair] = set()
        self._back = {other: node for node, other in self._alignment.nodes.items()}
        self._common = self._all_numbers(before) & self._all_numbers(after)

    def outputs(self) -> list[Pair]:
        """Return the outputs of both models. Raises UsageError where one has no partner."""
        pairs = [(a, b) for a, b in self._alignment.outputs if a is not None and b is not None]
        if len(pairs) < len(self._alignment.outputs):
            raise UsageError("the models have different outputs", hint="compare models with the same interface")
        return pairs

    def are_same(self, a: ir.Value, b: ir.Value) -> bool:
        """Tell whether two values are computed by the same operators from the same."""
        return self._of(a) == self._of(b)

    def inputs_of(self, a: ir.Value, b: ir.Value) -> list[Pair] | None:
        """Return the pairs of inputs of two nodes of one operator that correspond; nothing if they do not."""
        one, other = a.producer(), b.producer()
        if one is None or other is None or not self._are_alike(one, other) or a.index() != b.index():
            return None
        found: list[Pair] = []
        for x, y in zip(one.inputs, other.inputs, strict=True):
            if x is None or y is None:
                if x is not y:
                    return None
            elif not self.are_same(x, y):
                if not self._correspond(x, y):
                    return None
                found.append((x, y))
        return found

    def window(self, a: ir.Value, b: ir.Value) -> ChangedPart:
        """Return the window that ends with two values."""
        part = ChangedPart(a, b)
        variables: dict[Hashable, ir.Value] = {}
        for value, nodes in ((a, part.removed), (b, part.added)):
            self._collect(value, nodes, variables, part)
        part.models = self._models(part, variables)
        return part

    def _collect(
        self, root: ir.Value, nodes: list[ir.Node], variables: dict[Hashable, ir.Value], part: ChangedPart
    ) -> None:
        """Walk back from a value to those that the window starts from."""
        inside: set[ir.Node] = set()
        stack = [root]
        while stack:
            value = stack.pop()
            if constant_tensor(value) is not None:
                continue
            node = value.producer()
            stop = None if value is root and node is not None else self._boundary(value)
            if stop is not None or node is None:
                variables.setdefault(stop, value)
                if stop is not None and stop[0] == _PAIR and stop[1:] not in part.assumed:
                    part.assumed.append(stop[1:])
            elif node not in inside:
                inside.add(node)
                if len(inside) > _MOST_NODES:
                    raise UnsupportedError(f"a window of more than {_MOST_NODES} nodes")
                stack.extend(x for x in node.inputs if x is not None)
        graph = None if root.producer() is None else root.graph
        nodes.extend(node for node in graph or () if node in inside)

    def _boundary(self, value: ir.Value) -> tuple[Any, ...] | None:
        """Name the variable that a value is, if the window starts from it."""
        number = self._of(value)
        if number in self._common or value.producer() is None:
            return (_SAME, number)
        partner = self._partner(value)
        return None if partner is None else (_PAIR, *partner)

    def _partner(self, value: ir.Value) -> Pair | None:
        """Return a value with the one that corresponds to it, the one before first."""
        node = value.producer()
        if node is None:
            return None
        ahead, back = self._alignment.nodes.get(node), self._back.get(node)
        other = ahead or back
        if other is None or not self._are_alike(node, other):
            return None
        index = value.index()
        assert index is not None
        partner = other.outputs[index]
        found = (value, partner) if ahead is not None else (partner, value)
        return None if found in self.distrusted else found

    def _correspond(self, a: ir.Value, b: ir.Value) -> bool:
        found = self._partner(a)
        return found is not None and found[1] is b

    def _are_alike(self, a: ir.Node, b: ir.Node) -> bool:
        return self._operators[a] == self._operators[b] and len(a.inputs) == len(b.inputs)

    def _all_numbers(self, model: ir.Model) -> set[int]:
        computed = (output for node in model.graph for output in node.outputs)
        return {self._of(value) for value in (*model.graph.inputs, *computed)}

    def _number(self, key: Hashable) -> int:
        return self._keys.setdefault(key, len(self._keys))

    def _of(self, value: ir.Value) -> int:
        found = self._numbers.get(value)
        if found is None:
            tensor = constant_tensor(value)
            key = ("value", value) if tensor is None else ("constant", self._contents.tensor(tensor))
            found = self._numbers[value] = self._number(key)
        return found

    def _enter(self, node: ir.Node, functions: Mapping[ir.OperatorIdentifier, bytes]) -> None:
        graphs = [attr.value for attr in node.attributes.values() if attr.type is ir.AttributeType.GRAPH]
        bodies = tuple(structural_hash(graph) for graph in graphs if isinstance(graph, ir.Graph))
        outer = tuple(self._of(value) for graph in graphs if isinstance(graph, ir.Graph) for value in _captured(graph))
        key = (repr(self._contents.node(node)), functions.get(node.op_identifier()), bodies)
        self._operators[node] = key
        inputs = tuple(None if value is None else self._of(value) for value in node.inputs)
        for index, output in enumerate(node.outputs):
            if constant_tensor(output) is None:
                self._numbers[output] = self._number((key, inputs, outer, index))

    def _models(self, part: ChangedPart, variables: Mapping[Hashable, ir.Value]) -> tuple[ir.Model, ir.Model]:
        names = {key: f"v{index}" for index, key in enumerate(variables)}
        made: list[ir.Model] = []
        for model, root, nodes in ((self.before, part.before, part.removed), (self.after, part.after, part.added)):
            values: dict[ir.Value, ir.Value] = {}
            inputs: dict[Hashable, ir.Value] = {}
            for key, value in variables.items():
                shape = static_shape(value)
                if shape is None or value.dtype is None:
                    raise UnsupportedError(f"type or shape of '{value.name}' is not known")
                inputs[key] = ir.Value(name=names[key], type=ir.TensorType(value.dtype), shape=ir.Shape(shape))
            for value in (root, *(x for node in nodes for x in node.inputs if x is not None)):
                key = self._key(value, variables)
                if key is not None and value not in values:
                    values[value] = inputs[key]
            made.append(_model(model, root, nodes, values, list(inputs.values())))
        return made[0], made[1]

    def _key(self, value: ir.Value, variables: Mapping[Hashable, ir.Value]) -> Hashable | None:
        if constant_tensor(value) is not None:
            return None
        partner = self._partner(value)
        keys: list[Hashable] = [(_SAME, self._of(value))]
        keys += [] if partner is None else [(_PAIR, *partner)]
        return next((key for key in keys if key in variables), None)


def _captured(graph: ir.Graph) -> Iterator[ir.Value]:
    """List the values around a graph that it reads."""
    own = {value for node in graph.all_nodes() for value in node.outputs} | set(graph.inputs)
    for node in graph.all_nodes():
        for value in node.inputs:
            if value is not None and value not in own and value.graph is not graph:
                yield value


def _model(
    model: ir.Model, root: ir.Value, nodes: list[ir.Node], values: dict[ir.Value, ir.Value], inputs: list[ir.Value]
) -> ir.Model:
    """Build a model of some nodes; values that it is not given are constants."""
    initializers: dict[ir.Value, ir.Value] = {}
    copies: list[ir.Node] = []

    def taken(value: ir.Value) -> ir.Value:
        if value not in values:
            tensor = constant_tensor(value)
            if tensor is None:
                raise UnsupportedError(f"'{value.name}' is computed outside of the window")
            made = ir.Value(
                name=f"c{len(initializers)}",
                type=ir.TensorType(tensor.dtype),
                shape=ir.Shape(tensor.shape.numpy()),
                const_value=tensor,
            )
            values[value] = initializers[value] = made
        return values[value]

    for number, node in enumerate(nodes):
        if any(attr.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS) for attr in node.attributes.values()):
            raise UnsupportedError(f"{node.op_type} has a subgraph")
        copy = copy_node(node, [None if value is None else taken(value) for value in node.inputs])
        for index, (old, new) in enumerate(zip(node.outputs, copy.outputs, strict=True)):
            new.name = f"n{number}_{index}"
            new.type = None if old.dtype is None else ir.TensorType(old.dtype)
            new.shape = None if old.shape is None else ir.Shape(list(old.shape))
            if old not in values:
                values[old] = new
        copies.append(copy)
    result = taken(root)
    if result.producer() is None:
        identity = ir.Node("", "Identity", [result], num_outputs=1)
        identity.outputs[0].name, identity.outputs[0].type, identity.outputs[0].shape = "r", result.type, result.shape
        copies.append(identity)
        result = identity.outputs[0]
    graph = ir.Graph(
        inputs,
        [result],
        nodes=copies,
        initializers=list(initializers.values()),
        opset_imports=dict(model.opset_imports),
        name="window",
    )
    return ir.Model(graph, ir_version=model.ir_version, functions=list(model.functions.values()))
