"""What elementwise operators make of an input, and the values of it at which something behind them changes."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.graph.constants import constant_tensor
from onnx_passes.graph.copy import copy_node
from onnx_passes.graph.traits import traits_of
from onnx_passes.verify.samples.critical import critical_values
from onnx_passes.verify.samples.reference import Array

_MOVES = frozenset({"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten"})
_STEPS = frozenset({"Round", "Floor", "Ceil", "Sign", "Not", "IsNaN", "IsInf"})
_WITH_CONSTANTS = frozenset({"Add", "Sub", "Mul", "Div", "Min", "Max", "Sum", "Pow", "PRelu", "Clip"})
_LONGEST = 40
"""So many nodes behind an input are followed."""
_MOST_VALUES = 30
_MOST_TARGETS = 128
_MOST_ELEMENTS = 4096


@dataclass(frozen=True)
class Goal:
    """A value behind an input, and what it should come close to."""

    value: int
    place: Array


@dataclass
class Chain:
    """The nodes behind an input that work element by element, as a model of their own."""

    source: ir.Value
    model: ir.Model
    targets: list[Goal]
    sizes: list[tuple[int, ...]]
    """Shapes of the constants on the way, which decide where elements are treated alike."""


def chain_of(model: ir.Model, source: ir.Value) -> Chain | None:
    """Follow an input through elementwise operators; nothing if nothing there has critical values."""
    return _Builder(model, source).chain()


class _Builder:
    def __init__(self, model: ir.Model, source: ir.Value) -> None:
        self.model, self.source = model, source
        self.rank = 0 if source.shape is None else len(source.shape)
        self.is_integer = source.dtype is not None and source.dtype.is_integer()
        self.start = ir.Value(name="x", type=ir.TensorType(source.dtype or ir.DataType.FLOAT))
        self.copies = {source: self.start}
        self.moved: set[ir.Value] = set()
        self.nodes: list[ir.Node] = []
        self.weights: list[ir.Value] = []
        self.sizes: list[tuple[int, ...]] = []

    def chain(self) -> Chain | None:
        outputs: dict[ir.Value, int] = {}
        targets: list[Goal] = []
        todo = [self.source]
        while todo and len(self.nodes) < _LONGEST:
            value = todo.pop(0)
            found = self._targets(value)
            if found and len(outputs) < _MOST_VALUES:
                at = outputs.setdefault(self.copies[value], len(outputs))
                targets += [Goal(at, place) for place in found]
            todo += [output for node, index in value.uses() if (output := self._follow(node, index)) is not None]
        if not targets:
            return None
        kept = targets if len(targets) <= _MOST_TARGETS else targets[:: -(-len(targets) // _MOST_TARGETS)]
        graph = ir.Graph(
            [self.start],
            list(outputs),
            nodes=self.nodes,
            initializers=self.weights,
            opset_imports=dict(self.model.opset_imports),
            name="chain",
        )
        return Chain(self.source, ir.Model(graph, ir_version=self.model.ir_version), kept, self.sizes)

    def _targets(self, value: ir.Value) -> list[Array]:
        # Integers have nothing to round.
        uses = [use for use in value.uses() if not (self.is_integer and use.node.op_type == "Cast")]
        found = [place for node, index in uses for place in critical_values(node, index, self.rank)]
        places = [place for place in found if place.size == 1 or value not in self.moved]
        unique = {(place.shape, place.tobytes()): place for place in places}
        return list(unique.values())

    def _follow(self, node: ir.Node, index: int) -> ir.Value | None:
        """Copy a node that treats its first input element by element; returns what it computes."""
        output = node.outputs[0] if node.outputs else None
        if output is None or output in self.copies or node.graph is not self.model.graph or node.domain != "":
            return None
        value = node.inputs[index]
        assert value is not None
        if node.op_type in _MOVES and index == 0:
            self.copies[output] = self.copies[value]
            self.moved |= {output}
            return output
        inputs = self._inputs(node, index)
        if inputs is None:
            return None
        copied = copy_node(node, inputs)
        for number, made in enumerate(copied.outputs):
            made.name = f"v{len(self.nodes)}_{number}"
        self.nodes.append(copied)
        self.copies[output] = copied.outputs[0]
        if value in self.moved:
            self.moved.add(output)
        return output

    def _inputs(self, node: ir.Node, index: int) -> list[ir.Value | None] | None:
        value = node.inputs[index]
        assert value is not None
        if node.op_type == "BatchNormalization":
            if index != 0 or value in self.moved or node.attributes.get_int("training_mode", 0) or self.rank < 2:
                return None
        elif node.op_type == "Cast":
            target = ir.DataType(node.attributes.get_int("to", 0))
            if not target.is_floating_point() and not (self.is_integer and target.is_integer()):
                return None
        elif not _works_by_element(node):
            return None
        inputs: list[ir.Value | None] = []
        for at, given in enumerate(node.inputs):
            tensor = constant_tensor(given)
            if at == index or given is None:
                inputs.append(self.copies[value] if at == index else None)
            elif tensor is None or (tensor.size > 1 and value in self.moved) or tensor.size > _MOST_ELEMENTS:
                return None
            else:
                inputs.append(self._weight(tensor, per_channel=node.op_type == "BatchNormalization"))
        return inputs

    def _weight(self, tensor: ir.TensorProtocol, *, per_channel: bool) -> ir.Value:
        shape = tuple(int(size) for size in tensor.shape.numpy())
        self.sizes.append((*shape, *(1,) * (self.rank - 2)) if per_channel else shape)
        made = ir.Value(name=f"w{len(self.weights)}", type=ir.TensorType(tensor.dtype), shape=ir.Shape(shape))
        made.const_value = tensor
        self.weights.append(made)
        return made


def _works_by_element(node: ir.Node) -> bool:
    """Tell whether a node makes numbers of numbers, each of one element and constants."""
    if node.op_type in _STEPS or traits_of(node).kind != "elementwise":
        return False
    return len(node.inputs) == 1 or node.op_type in _WITH_CONSTANTS
