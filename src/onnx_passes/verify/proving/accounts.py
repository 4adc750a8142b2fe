"""Accounts of a step: every difference between the model before and after it must have been announced.

Proofs are about announced rewrites. They say nothing of a model that was changed beside them, so objects are compared:
nodes with their operators, inputs and attributes, weights with their exact values, functions, operator sets, and the
interface. What a rewrite adds is compared with what was announced, while the proof was looked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.core.records import Application
from onnx_passes.core.walk import all_graphs, all_nodes, nested_graphs
from onnx_passes.graph.constants import is_constant_node
from onnx_passes.graph.schemas import schema_of
from onnx_passes.graph.wording import name_of
from onnx_passes.ops.semantics.exact import stored_exact_value
from onnx_passes.verify.proving.constants import same_bits

METHOD = "nothing computed changes"
_Key = tuple[object, ...]
_Held = tuple[ir.TensorProtocol | None, object]
_Weight = tuple[ir.Value, _Held]
"""A value with its tensor and what is stored as its exact value."""
Container = ir.Graph | ir.Function


@dataclass(frozen=True)
class _Announced:
    """What a rewrite is about to add: nodes with their inputs, and weights."""

    application: Application
    nodes: Mapping[ir.Node, tuple[_Key, Sequence[ir.Value | None]]]
    weights: Mapping[ir.Value, _Held]


class Accounts:
    """Takes a snapshot of a model, follows the announced rewrites, and names what else has changed."""

    def __init__(self, model: ir.Model) -> None:
        self._nodes: dict[ir.Node, _Key] = {}
        self._inputs: dict[ir.Node, Sequence[ir.Value | None]] = {}
        self._weights: dict[ir.Value, _Held] = {}
        self._replaced: dict[ir.Value, ir.Value] = {}
        self._added: set[ir.Node] = set()
        self._announced: _Announced | None = None
        self._functions = dict(model.functions)
        self._interface = _Interface.of(model.graph)
        self._containers = dict(_containers(model))
        self._imports = {name: dict(each.opset_imports) for name, each in self._containers.items()}
        self._ends = {graph: (tuple(graph.inputs), tuple(graph.outputs)) for graph in _all_graphs(model)}
        for container in self._containers.values():
            self._note_nodes(all_nodes(container))
        self._note_weights(_weights(model))
        self.computes_otherwise = False

    def announce(self, application: Application) -> None:
        """Note what a rewrite is about to add, as it is while a proof is looked for."""
        nodes = {node: (_key(node), node.inputs) for node in _all_added(application)}
        self._announced = _Announced(application, nodes, {value: _held(value) for value in application.initializers})

    def follow(self, application: Application) -> None:
        """Note a rewrite that was applied."""
        self._replaced.update(application.replaced)
        added = _all_added(application)
        self._added.update(added)
        self._note_nodes(added)
        self._note_weights((value, _held(value)) for value in application.initializers)
        announced = self._announced
        if announced is not None and announced.application is application:
            for node, (key, inputs) in announced.nodes.items():
                self._nodes[node], self._inputs[node] = key, inputs
            self._weights.update(announced.weights)
        for graph in (graph for node in added for graph in nested_graphs(node)):
            self._ends[graph] = tuple(graph.inputs), tuple(graph.outputs)
            self._note_weights(_weights_of(graph))
        if application.replaced or application.added or application.update is not None:
            self.computes_otherwise = True
        if application.update is not None and application.root is not None:
            self._note_nodes([application.root])

    def objection(self, model: ir.Model) -> str:
        """Return the first change that no rewrite has announced; empty if there is none."""
        return next(filter(None, self._objections(model)), "")

    def _objections(self, model: ir.Model) -> Iterator[str]:
        yield self._of_interface(model.graph)
        yield self._of_functions(model)
        yield self._of_versions(model)
        yield from map(self._of_weight, _weights(model))
        yield from map(self._of_graph, _all_graphs(model))
        yield from map(self._of_node, _all_nodes(model))

    def _note_nodes(self, nodes: Iterable[ir.Node]) -> None:
        for node in nodes:
            self._nodes[node] = _key(node)
            self._inputs[node] = node.inputs

    def _note_weights(self, weights: Iterable[_Weight]) -> None:
        self._weights.update(weights)

    def _of_interface(self, graph: ir.Graph) -> str:
        now = _Interface.of(graph)
        # An input that has a default may become a constant: for all other inputs the model computes the same.
        wanted = tuple(each for each in self._interface.inputs if each in now.inputs or each[0] not in self._weights)
        if now.inputs != wanted:
            return "inputs of the model were changed"
        return "outputs of the model were changed" if now.outputs != self._interface.outputs else ""

    def _of_functions(self, model: ir.Model) -> str:
        names = {*self._functions, *model.functions}
        changed = {name for name in names if self._functions.get(name) is not model.functions.get(name)}
        for node in _all_nodes(model) if changed else ():
            if node not in self._added and node.op_identifier() in changed:
                return f"the function that {name_of(node)} calls was changed"
        return ""

    def _of_versions(self, model: ir.Model) -> str:
        """Object to operators that are read in another version of their set, of another definition."""
        for name, container in _containers(model).items():
            before, after = self._imports.get(name), container.opset_imports
            if before is None or before == after:
                continue
            changed = {domain for domain, version in before.items() if after.get(domain, version) != version}
            for node in all_nodes(container) if changed else ():
                versions = before.get(node.domain), after.get(node.domain)
                if node.domain in changed and not _same_definition(node, *versions):
                    return f"{name_of(node)} has another definition in the operator set that was imported"
        return ""

    def _of_weight(self, weight: _Weight) -> str:
        value, now = weight
        before = self._weights.get(value, now)
        if before[1] is not now[1]:
            return f"the exact value of weight '{value.name}' was changed"
        same = before[0] is now[0] or (before[0] is not None and now[0] is not None and same_bits(before[0], now[0]))
        return "" if same else f"weight '{value.name}' was changed"

    def _of_graph(self, graph: Container) -> str:
        inputs, outputs = self._ends.get(graph, ((), ()))
        if graph not in self._ends:
            # No node of the model before calls a function that is new.
            return "" if isinstance(graph, ir.Function) else "a graph was added"
        inputs = tuple(value for value in inputs if value in graph.inputs or value not in self._weights)
        if inputs != tuple(graph.inputs) or not self._same_values(outputs, tuple(graph.outputs)):
            return "inputs or outputs of a graph were changed"
        return ""

    def _of_node(self, node: ir.Node) -> str:
        key = self._nodes.get(node)
        if key is None:
            return f"{name_of(node)} was added"
        if key != _key(node):
            return f"{name_of(node)} was changed"
        if node.inputs is not self._inputs[node] and not self._same_values(self._inputs[node], node.inputs):
            return f"inputs of {name_of(node)} were changed"
        return ""

    def _same_values(self, before: Sequence[ir.Value | None], after: Sequence[ir.Value | None]) -> bool:
        return len(before) == len(after) and all(
            a is b or self._resolved(a) is self._resolved(b) for a, b in zip(before, after, strict=True)
        )

    def _resolved(self, value: ir.Value | None) -> ir.Value | None:
        """Return the value that announced rewrites have put in the place of another one."""
        seen: set[ir.Value] = set()
        while value is not None and value not in seen:
            seen.add(value)
            producer = value.producer()
            if value in self._replaced:
                value = self._replaced[value]
            elif producer in self._added and producer.op_identifier() == ("", "Identity", ""):
                value = producer.inputs[0]
        return value


@dataclass(frozen=True)
class _Interface:
    """Inputs and outputs of a model as programs see them."""

    inputs: tuple[_Key, ...]
    outputs: tuple[_Key, ...]

    @classmethod
    def of(cls, graph: ir.Graph) -> _Interface:
        inputs = tuple((value, value.name, value.type) for value in graph.inputs)
        return cls(inputs, tuple((value.name,) for value in graph.outputs))


def _nodes_inside(node: ir.Node) -> Iterator[ir.Node]:
    return (inner for graph in nested_graphs(node) for inner in all_nodes(graph))


def _all_added(application: Application) -> list[ir.Node]:
    return [inner for node in application.added for inner in (node, *_nodes_inside(node))]


def _key(node: ir.Node) -> _Key:
    # Attributes are immutable, and a mapping written in Python: the one in it is compared much faster.
    exact = stored_exact_value(node.outputs[0]) if is_constant_node(node) else None
    return node.domain, node.op_type, node.overload, node.outputs, tuple(node.attributes.data.values()), exact


def _held(value: ir.Value) -> _Held:
    return value.const_value, stored_exact_value(value)


def _containers(model: ir.Model) -> Mapping[object, Container]:
    return {None: model.graph, **model.functions}


def _all_nodes(model: ir.Model) -> Iterator[ir.Node]:
    return (node for container in _containers(model).values() for node in all_nodes(container))


def _all_graphs(model: ir.Model) -> Iterator[Container]:
    for container in _containers(model).values():
        yield container
        yield from all_graphs(container)


def _weights(model: ir.Model) -> Iterator[_Weight]:
    for graph in _all_graphs(model):
        if isinstance(graph, ir.Graph):
            yield from _weights_of(graph)


def _weights_of(graph: ir.Graph) -> Iterator[_Weight]:
    return ((value, _held(value)) for value in graph.initializers.values())


def _same_definition(node: ir.Node, before: int | None, after: int | None) -> bool:
    schemas = [schema_of(node.domain, node.op_type, version) for version in (before, after) if version is not None]
    known = [schema.since_version for schema in schemas if schema is not None]
    return len(known) == 2 and known[0] == known[1]
