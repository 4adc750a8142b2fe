"""Digests that decide whether two models are equal: in structure, or in everything visible.

The structural digest covers operators, attributes, constants, wiring and the interface, not the names of
interior values and nodes, nor the order of the node list, nor metadata, types and shapes. The full digest
covers all of it.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, cast

import onnx_ir as ir

from onnx_passes.core.walk import all_graphs, all_nodes
from onnx_passes.graph.hashing.canonical import Numbering
from onnx_passes.graph.hashing.content import DIGEST_SIZE, Contents, Key, operator, present_inputs, type_key
from onnx_passes.graph.hashing.dead_nodes import dead_colours
from onnx_passes.graph.hashing.identity import Identities
from onnx_passes.graph.hashing.snapshot import everything

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


def structural_hash(model: ir.Model | ir.Graph | ir.Function) -> bytes:
    """Return a digest of the computation of a model, independent of interior names and node order.

    Nodes that reach no output and unused initializers count, and so does sharing: one node read twice differs from two
    equal nodes read once. Only used functions and opset imports count. Raises
    ModelError for a graph with a cycle.
    """
    return Fingerprinter().structural(model)


def full_hash(model: ir.Model | ir.Graph | ir.Function) -> bytes:
    """Return a digest of everything that is written to a file: structure, names, order, types, metadata."""
    return Fingerprinter().full(model)


class Fingerprinter:
    """Digests of models, reading each tensor only once for any number of digests."""

    def __init__(self, contents: Contents | None = None) -> None:
        self.contents = contents or Contents()

    @classmethod
    def within_run(cls) -> Fingerprinter:
        """Return an instance that avoids reading large weights, with digests that compare only with each other."""
        return cls(Identities())

    def structural(self, model: ir.Model | ir.Graph | ir.Function) -> bytes:
        """Return the digest described at :func:`structural_hash`."""
        return _digest(self._structure(model))

    def structure(self, model: ir.Model) -> tuple[Key, ...]:
        """Return the parts of the structural digest: larger, but faster to compute and compare."""
        return tuple(self._structure(model))

    def live(self, model: ir.Model) -> bytes:
        """Return the structural digest without nodes that reach no output."""
        return _digest(self._structure(model, dead=False))

    def full(self, model: ir.Model | ir.Graph | ir.Function) -> bytes:
        """Return the digest described at :func:`full_hash`."""
        return _digest(everything(model, self.contents))

    def body(self, graph: ir.Graph) -> tuple[bytes, tuple[ir.Value, ...]]:
        """Return the digest of a subgraph, independent of the outer values that it reads, and these values in order."""
        layout = Numbering(graph)
        captured = tuple(value for value in layout.leaves if _is_outside(value, layout))
        return _digest(self._live_nodes(layout, named=False)), captured

    def _structure(self, model: ir.Model | ir.Graph | ir.Function, *, dead: bool = True) -> Iterator[Key]:
        operators = set[ir.OperatorIdentifier]()
        if isinstance(model, ir.Function):
            yield from self._function(model, operators)
            return
        graph = model.graph if isinstance(model, ir.Model) else model
        yield tuple((value.name, type_key(value.type)) for value in graph.inputs)
        yield tuple((value.name, type_key(value.type)) for value in graph.outputs)
        yield from self._graph(graph, operators, dead=dead)
        if isinstance(model, ir.Model):
            for function in used_functions(model, operators):
                yield from self._function(function, set())

    def _function(self, function: ir.Function, operators: set[ir.OperatorIdentifier]) -> Iterator[Key]:
        yield function.identifier()
        yield tuple(self.contents.attributes(function.attributes.values()))
        yield from self._graph(function.graph, operators)

    def _graph(self, graph: ir.Graph, operators: set[ir.OperatorIdentifier], *, dead: bool = True) -> Iterator[Key]:
        layout = Numbering(graph)
        contents = self.contents
        yield from self._live_nodes(layout)
        operators.update(map(operator, layout.nodes))
        if dead:
            operators.update(map(operator, layout.dead_nodes))
        if dead and (layout.dead_nodes or layout.dead_leaves):
            colours = dead_colours(layout, contents)
            yield ("dead", *sorted(colours[node] for node in layout.dead_nodes))
            yield ("unused", *sorted(colours[value] for value in layout.dead_leaves))
        yield ("opsets", *used_opsets(graph.opset_imports, operators))

    def _live_nodes(self, layout: Numbering, *, named: bool = True) -> Iterator[Key]:
        """Yield the keys of nodes that reach the outputs of a graph; outer values by name, or only by order."""
        contents, reference = self.contents, layout.reference
        for nested, number in layout.graphs.items():
            yield ("graph", number, tuple(_overridable(value, contents) for value in nested.inputs))
        for value in layout.leaves:
            if _is_outside(value, layout):
                yield ("outside", layout.leaves[value], value.name if named else None)
            elif not value.is_graph_input():
                home = layout.graphs[cast("ir.Graph", value.graph)]
                yield ("initializer", layout.leaves[value], home, contents.initial_value(value))
        for node in layout.nodes:
            home = layout.graphs[cast("ir.Graph", node.graph)]
            inputs = map(reference, present_inputs(node))
            held = ((layout.graphs[graph], *map(reference, graph.outputs)) for graph in layout.held.get(node, ()))
            yield (contents.node(node), home, tuple(inputs), *held)
        yield ("outputs", *map(reference, layout.graph.outputs))


def used_opsets(imports: Mapping[str, int], operators: Iterable[ir.OperatorIdentifier]) -> list[tuple[str, int | None]]:
    """Return domain and version of the opsets that operators need, in order of domain."""
    versions = {"" if domain == "ai.onnx" else domain: version for domain, version in imports.items()}
    return [(domain, versions.get(domain)) for domain in sorted({domain for domain, _, _ in operators})]


def used_functions(model: ir.Model, operators: Iterable[ir.OperatorIdentifier]) -> list[ir.Function]:
    """Return the functions that operators call, directly or indirectly, in order of identifier."""
    found: dict[ir.OperatorIdentifier, ir.Function] = {}
    pending = set(operators)
    while pending:
        identifier = pending.pop()
        if identifier in model.functions and identifier not in found:
            found[identifier] = model.functions[identifier]
            pending.update(operator(node) for node in found[identifier].all_nodes())
    return [found[identifier] for identifier in sorted(found)]


def _overridable(value: ir.Value, contents: Contents) -> Key:
    return (contents.initial_value(value),) if value.is_initializer() else None


def _is_outside(value: ir.Value, layout: Numbering) -> bool:
    """Return whether a leaf is neither an input nor an initializer of the numbered graphs."""
    return value.graph not in layout.graphs or not (value.is_graph_input() or value.is_initializer())


def _digest(keys: Iterable[Key]) -> bytes:
    hasher = blake2b(digest_size=DIGEST_SIZE)
    for key in keys:
        hasher.update(repr(key).encode("utf-8", "surrogatepass"))
    return hasher.digest()


def wiring(model: ir.Model) -> int:
    """Return a number that changes with nodes, attributes, wiring, interface or initializers, by object identity.

    A digest of contents would cost ten times as much. The order of nodes, types, shapes and metadata are ignored.
    """
    total = hash(tuple(model.functions))
    for container in (model.graph, *model.functions.values()):
        total += hash((*map(id, container.inputs), None, *map(id, container.outputs)))
        for graph in (container, *all_graphs(container)):
            if isinstance(graph, ir.Graph):
                total += sum(hash((name, id(value.const_value))) for name, value in graph.initializers.items())
        for node in all_nodes(container):
            parts = (*map(id, node.inputs), None, *map(id, node.attributes.data.values()))
            total += hash((id(node), node.domain, node.op_type, *parts))
    return total
