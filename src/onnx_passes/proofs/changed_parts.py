"""What differs between two models, as small pairs of models: windows around what is not the same.

Values that are computed by the same operators from the same are the same, from the inputs on. From the outputs inward,
two values are the same if they are computed by the same operator and its inputs are; where that is not so, a window
begins. It reaches back to values that are the same, or that nodes compute which the alignment of both graphs pairs:
those are its variables, and have to be shown to be the same as well.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir

from onnx_passes.core.errors import UsageError
from onnx_passes.graph.alignment import Alignment
from onnx_passes.graph.constants import constant_tensor
from onnx_passes.graph.copy import copy_node
from onnx_passes.graph.hashing.semantics import Operation, Semantics
from onnx_passes.graph.shapes import static_shape
from onnx_passes.proofs.algebra import UnsupportedError

_MOST_NODES = 60
_SAME, _PAIR = "same", "pair"
Pair = tuple[ir.Value, ir.Value]
Key = tuple[Any, ...]
"""A variable of a window: values of one number, or a pair of values that correspond."""


@dataclass
class ChangedPart:
    """A value that is computed in two ways: by these nodes before and after, from variables that both have.

    ``variables`` are the values that it starts from, by name; ``assumed`` those that still have to be shown to be the
    same.
    """

    before: ir.Value
    after: ir.Value
    removed: list[ir.Node] = field(default_factory=list[ir.Node])
    added: list[ir.Node] = field(default_factory=list[ir.Node])
    assumed: list[Pair] = field(default_factory=list[Pair])
    variables: tuple[tuple[Key, ir.Value], ...] = ()
    models: tuple[ir.Model, ir.Model] | None = None


class Comparison:
    """Two models, what is the same in them, and the windows around what is not.

    ``distrusted`` are pairs of values that correspond, but are not the same: windows go on behind them. ``opened`` are
    the values, for each window by its end, that are the same but depend on each other: it goes on behind them, too.
    """

    def __init__(self, before: ir.Model, after: ir.Model) -> None:
        self.before, self.after = before, after
        self._contents = Semantics((before, after))
        self._alignment = Alignment(before.graph, after.graph, self._contents)
        self._keys: dict[Hashable, int] = {}
        self._numbers: dict[ir.Value, int] = {}
        self._operations: dict[ir.Node, Operation] = {}
        names = {other: value for value, other in self._alignment.inputs if value is not None and other is not None}
        self.draws = tuple(self._enter_all(model, names) for model in (before, after))
        self.distrusted: set[Pair] = set()
        self.opened: defaultdict[Pair, set[int]] = defaultdict(set)
        # Nodes of subgraphs are known by the nodes that hold them.
        pairs = self._alignment.nodes.items()
        self._ahead = {a: b for a, b in pairs if a in self._operations and b in self._operations}
        self._back = {other: node for node, other in self._ahead.items()}
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

    def depends(self, output: ir.Value, value: ir.Value) -> bool:
        """Return whether an output is computed from a value."""
        seen: set[ir.Value] = set()
        waiting = [output]
        while waiting:
            found = waiting.pop()
            if found is value:
                return True
            node = found.producer()
            if found not in seen and node is not None:
                seen.add(found)
                waiting.extend(x for x in self._operations[node].operands if x is not None)
        return False

    def inputs_of(self, a: ir.Value, b: ir.Value) -> list[Pair] | None:
        """Return the pairs of operands of two nodes of one operator that correspond; None if some do not."""
        one, other = a.producer(), b.producer()
        if one is None or other is None or not self._are_alike(one, other) or a.index() != b.index():
            return None
        found: list[Pair] = []
        for x, y in zip(self._operations[one].operands, self._operations[other].operands, strict=True):
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
        variables: dict[Key, ir.Value] = {}
        for value, nodes in ((a, part.removed), (b, part.added)):
            self._collect(value, nodes, variables, part)
        part.models = self._models(part, variables)
        part.variables = tuple(variables.items())
        return part

    def open(self, part: ChangedPart) -> bool:
        """Extend a window beyond variables that nodes compute, which may depend on each other; False if it has none."""
        opened = self.opened[part.before, part.after]
        fresh = {key[1] for key, value in part.variables if key[0] == _SAME and value.producer() is not None} - opened
        opened |= fresh
        return bool(fresh)

    def _collect(self, root: ir.Value, nodes: list[ir.Node], variables: dict[Key, ir.Value], part: ChangedPart) -> None:
        """Walk back from a value to those that the window starts from."""
        inside: set[ir.Node] = set()
        stack = [root]
        while stack:
            value = stack.pop()
            if constant_tensor(value) is not None:
                continue
            node = value.producer()
            stop = None if value is root and node is not None else self._boundary(value, part)
            if stop is not None:
                variables.setdefault(stop, value)
                if stop[0] == _PAIR and stop[1:] not in part.assumed:
                    part.assumed.append(stop[1:])
            elif node is not None and node not in inside:
                inside.add(node)
                if len(inside) > _MOST_NODES:
                    raise UnsupportedError(f"a window of more than {_MOST_NODES} nodes")
                stack.extend(x for x in self._operations[node].operands if x is not None)
        graph = None if root.producer() is None else root.graph
        nodes.extend(node for node in graph or () if node in inside)

    def _boundary(self, value: ir.Value, part: ChangedPart) -> Key | None:
        """Name the variable that a value is, if the window starts from it."""
        number = self._of(value)
        if value.producer() is None:
            return (_SAME, number)
        if number in self._common and number not in self.opened[part.before, part.after]:
            return (_SAME, number)
        partner = self._partner(value)
        return None if partner is None else (_PAIR, *partner)

    def _partner(self, value: ir.Value) -> Pair | None:
        """Return a value with the one that corresponds to it, the one before first."""
        node = value.producer()
        if node is None:
            return None
        ahead, back = self._ahead.get(node), self._back.get(node)
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
        """Return whether two nodes are the same function of their operands; random draws are not functions."""
        one, other = self._operations[a], self._operations[b]
        return one.key == other.key and not one.draws and len(one.operands) == len(other.operands)

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

    def _enter_all(self, model: ir.Model, names: Mapping[ir.Value, ir.Value]) -> Counter[Hashable]:
        """Enter the values of a model; return how often each of its operations draws random numbers."""
        drawn: Counter[Hashable] = Counter()
        draws: Counter[Hashable] = Counter()
        for value in model.graph.inputs:
            self._numbers[value] = self._number(("input", names.get(value, value)))
        for node in model.graph:
            operation = self._operations[node] = self._contents.operation(node)
            operands = tuple(None if value is None else self._of(value) for value in operation.operands)
            key: tuple[Hashable, ...] = (operation.key, operands)
            if operation.draws:
                # No two draws of a model are the same; between models, those that come in the same order are.
                drawn[key] += 1
                draws[operation.key] += 1
                key = (*key, drawn[key])
            for index, output in enumerate(node.outputs):
                if constant_tensor(output) is None:
                    self._numbers[output] = self._number((*key, ("output", index)))
        return draws

    def _models(self, part: ChangedPart, variables: Mapping[Key, ir.Value]) -> tuple[ir.Model, ir.Model]:
        names = {key: f"v{index}" for index, key in enumerate(variables)}
        made: list[ir.Model] = []
        for model, root, nodes in ((self.before, part.before, part.removed), (self.after, part.after, part.added)):
            values: dict[ir.Value, ir.Value] = {}
            inputs: dict[Key, ir.Value] = {}
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

    def _key(self, value: ir.Value, variables: Mapping[Key, ir.Value]) -> Key | None:
        if constant_tensor(value) is not None:
            return None
        partner = self._partner(value)
        keys: list[Key] = [(_SAME, self._of(value))]
        keys += [] if partner is None else [(_PAIR, *partner)]
        return next((key for key in keys if key in variables), None)


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
