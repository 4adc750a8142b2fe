"""Plan of a floating-point conversion: nodes that compute in the new type, and Casts between them and the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from onnx_passes.core.walk import all_graphs, all_nodes
from onnx_passes.graph.constants import constant_tensor
from onnx_passes.graph.edits import prepend, subgraphs_of
from onnx_passes.graph.names import Names
from onnx_passes.graph.schemas import Signature, allows, signature
from onnx_passes.graph.traits import traits_of
from onnx_passes.passes.convert.objections import Objection

_MOVES = "it moves a value that stays"
_EXACT = {"Resize": frozenset({"T2"})}
"""Type variables of coordinates, which are not data."""


@dataclass
class Precision:
    """Plan of a dtype conversion.

    Planning changes nothing yet; ``stay`` maps each node that keeps its type to the reason.
    """

    model: ir.Model
    sources: frozenset[ir.DataType]
    target: ir.DataType
    keeps_interface: bool
    objection: Objection
    stay: dict[ir.Node, str] = field(default_factory=dict[ir.Node, str])
    _converted: dict[ir.Node, frozenset[str]] = field(default_factory=dict[ir.Node, frozenset[str]])
    """Nodes that compute in the new type, with the type variables of their schema that take it."""

    _new_inputs: frozenset[ir.Value] = frozenset()

    def __post_init__(self) -> None:
        for node in all_nodes(self.model.graph):
            variables = self._variables(node)
            if variables is None:
                continue
            reason = self._unknown(node, variables) if variables else self._untaken(node)
            reason = reason or self.objection(node) or self._followed(node)
            if reason:
                self.stay[node] = reason
            else:
                self._converted[node] = variables
        for node in reversed(list(self._converted)):
            if traits_of(node).kind == "movement" and self._serves_others(node):
                del self._converted[node]
                self.stay[node] = _MOVES

    @property
    def nodes(self) -> list[ir.Node]:
        """Return the nodes that compute in the new type."""
        return list(self._converted)

    def __bool__(self) -> bool:
        graph = self.model.graph
        interface = (*graph.inputs, *graph.outputs)
        return bool(self._converted) or (not self.keeps_interface and any(map(self._is_source, interface)))

    def _is_source(self, value: ir.Value | None) -> bool:
        return value is not None and isinstance(value.type, ir.TensorType) and value.dtype in self.sources

    def _signature(self, node: ir.Node) -> Signature | None:
        return signature(node.domain, node.op_type, self.model.opset_imports.get(node.domain, 1))

    def _variables(self, node: ir.Node) -> frozenset[str] | None:
        """Return the type variables that may take the new type; None for nodes without such a value."""
        if not any(map(self._is_source, (*node.inputs, *node.outputs))) or node.op_type == "Constant":
            return None
        types = self._signature(node)
        if types is None or node.op_identifier() in self.model.functions or subgraphs_of(node):
            return frozenset()
        found = [types.variable_of_input(index) for index, value in enumerate(node.inputs) if self._is_source(value)]
        found += [types.variable_of_output(index) for index, value in enumerate(node.outputs) if self._is_source(value)]
        version = self.model.opset_imports.get(node.domain, 1)
        named = frozenset(name for name in found if name is not None)
        allowed = frozenset(name for name in named if allows(node.domain, node.op_type, version, name, self.target))
        return allowed - _EXACT.get(node.op_type, frozenset())

    def _followed(self, node: ir.Node) -> str:
        """Keep nodes that only move values of nodes that stay: converting them needs Casts and saves nothing."""
        first = node.inputs[0] if node.inputs else None
        producer = None if first is None else first.producer()
        if traits_of(node).kind == "movement" and producer in self.stay:
            return _MOVES
        return ""

    def _serves_others(self, node: ir.Node) -> bool:
        """Return whether all consumers of the results of a node stay."""
        users = [user for value in node.outputs for user, _ in value.uses()]
        returned = any(value.is_graph_output() for value in node.outputs)
        return bool(users) and not returned and all(user in self.stay for user in users)

    def _unknown(self, node: ir.Node, variables: frozenset[str]) -> str:
        """Keep nodes that read a value of unknown type along with operands of the new type."""
        types = self._signature(node)
        for index, value in enumerate(node.inputs):
            if value is not None and value.type is None and types and types.variable_of_input(index) in variables:
                return f"the type of '{value.name}' is not known"
        return ""

    def _untaken(self, node: ir.Node) -> str:
        if subgraphs_of(node):
            return "its subgraphs keep their interface"
        if node.op_identifier() in self.model.functions:
            return "it calls a function: inline-functions first"
        if self._signature(node) is None:
            return "nothing is known of its operator"
        return f"{node.op_type} does not take {self.target.name.lower()} in opset {self.model.opset_imports.get('', 1)}"

    def _reads_new(self, node: ir.Node, index: int) -> bool:
        variables, types = self._converted.get(node), self._signature(node)
        return variables is not None and types is not None and types.variable_of_input(index) in variables

    def _yields_new(self, value: ir.Value) -> bool:
        node = value.producer()
        if node is None:
            return value in self._new_inputs
        variables, types = self._converted.get(node), self._signature(node)
        return variables is not None and types is not None and types.variable_of_output(value.index() or 0) in variables

    def apply(self) -> None:
        """Convert the model in place."""
        graph = self.model.graph
        graphs = [graph, *all_graphs(graph)]
        self._names = Names.of(graph)
        if not self.keeps_interface:
            self._new_inputs = frozenset(value for value in graph.inputs if self._is_source(value))
        values = [value for one in graphs for value in _values(one) if self._is_source(value)]
        kinds = {value: self._yields_new(value) for value in values}
        dtypes = {value: value.dtype for value in values}
        for value in values:
            if constant_tensor(value) is not None:
                self._convert_constant(value)
            else:
                self._convert_value(value, dtypes[value] or self.target, is_new=kinds[value])
        for node in self._converted:
            _state_type(node, self.sources, self.target)

    def _convert_constant(self, value: ir.Value) -> None:
        """Convert a constant for all its consumers in the new type."""
        uses = list(value.uses())
        reading = [use for use in uses if self._reads_new(*use)]
        returned = value.is_graph_output() and value.graph is self.model.graph and not self.keeps_interface
        tensor = constant_tensor(value)
        if not reading and not returned:
            return
        assert tensor is not None
        made = converted(tensor, self.target)
        if len(reading) == len(uses) and (returned or not value.is_graph_output()):
            _replace_tensor(value, made)
            return
        twin = ir.Value(name=self._names.value(f"{value.name}_{self.target.name.lower()}"), const_value=made)
        twin.type, twin.shape = ir.TensorType(self.target), value.shape
        graph = value.graph
        assert isinstance(graph, ir.Graph)
        graph.register_initializer(twin)
        for node, index in reading:
            node.replace_input_with(index, twin)

    def _convert_value(self, value: ir.Value, dtype: ir.DataType, *, is_new: bool) -> None:
        """Set the type of a value, and insert a Cast for its consumers in the other type."""
        graph = value.graph
        assert isinstance(graph, ir.Graph)
        other = [(node, index) for node, index in value.uses() if self._reads_new(node, index) != is_new]
        is_output = value.is_graph_output()
        wants_new = graph is self.model.graph and not self.keeps_interface
        if is_new:
            value.type = ir.TensorType(self.target)
        if not other and (not is_output or wants_new == is_new):
            return
        target = dtype if is_new else self.target
        cast = ir.Node("", "Cast", [value], [ir.AttrInt64("to", target.value)])
        result = cast.outputs[0]
        result.type, result.shape = ir.TensorType(target), value.shape
        cast.name = self._names.node(f"{value.name}_Cast")
        result.name = self._names.value(f"{value.name}_{target.name.lower()}")
        producer = value.producer()
        if producer is not None:
            producer.append(cast)
        else:
            prepend(graph, [cast])
        for node, index in other:
            node.replace_input_with(index, result)
        if is_output and wants_new != is_new:
            _return_instead(graph, value, result)


def converted(tensor: ir.TensorProtocol, target: ir.DataType) -> ir.TensorProtocol:
    """Return a tensor rounded to another type."""
    with np.errstate(over="ignore"):
        array = tensor.numpy().astype(target.numpy())
    return ir.Tensor(array, target, name=tensor.name)


def _state_type(node: ir.Node, sources: frozenset[ir.DataType], target: ir.DataType) -> None:
    """Set the new type in the attribute that names the result type."""
    if node.op_type == "Cast" and node.attributes.get_int("to", 0) in {source.value for source in sources}:
        node.attributes.add(ir.AttrInt64("to", target.value))
    if node.op_type == "ConstantOfShape":
        value = node.attributes.get("value")
        held = ir.Tensor(np.zeros(1, np.float32)) if value is None else value.as_tensor()
        node.attributes.add(ir.AttrTensor("value", converted(held, target)))


def _values(graph: ir.Graph) -> Iterator[ir.Value]:
    yield from graph.inputs
    yield from (value for value in graph.initializers.values() if not value.is_graph_input())
    for node in graph:
        yield from node.outputs


def _replace_tensor(value: ir.Value, tensor: ir.TensorProtocol) -> None:
    """Replace the tensor of a constant."""
    node = value.producer()
    if node is not None:
        node.attributes.clear()
        node.attributes.add(ir.AttrTensor("value", tensor))
    value.const_value, value.type = tensor, ir.TensorType(tensor.dtype)


def _return_instead(graph: ir.Graph, value: ir.Value, result: ir.Value) -> None:
    """Return ``result`` instead of ``value`` from the graph, under the original name."""
    name, inner = value.name, result.name
    if not value.is_graph_input():
        value.name, result.name = inner, name
        result.metadata_props.update(value.metadata_props)
    for index, output in enumerate(graph.outputs):
        if output is value:
            graph.outputs[index] = result
