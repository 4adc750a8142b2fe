"""The current model in versions: each visit returns the changes, at a cost proportional to their number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import is_

import onnx_ir as ir

from onnx_passes.core.walk import holds_graphs
from onnx_passes.graph import annotations
from onnx_passes.graph.constants import is_constant_node
from onnx_passes.graph.tensor_types import DATATYPE
from onnx_passes.graph.wording import operator_name, type_text
from onnx_passes.history.constants import Constant, Constants
from onnx_passes.history.graphs import Graphs
from onnx_passes.history.items import Item, input_names, output_names
from onnx_passes.history.versions import (
    Attribute,
    Changes,
    Description,
    GraphInterface,
    GraphVersion,
    NodeVersion,
    ValueVersion,
)

_TENSOR, _TENSORS = ir.AttributeType.TENSOR, ir.AttributeType.TENSORS
_GRAPH, _GRAPHS = ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS


class Live:
    """Versions of all nodes and values of a model.

    ``look`` visits the whole model, ``touch`` the surroundings of a rewrite; both return the changes.
    """

    def __init__(self) -> None:
        self.nodes: dict[ir.Node, KnownNode] = {}
        self.values: dict[ir.Value, ValueVersion] = {}
        self.count_nodes = 0
        self.count_values = 0
        self._constants = Constants()
        self._graphs = Graphs()

    @property
    def graphs(self) -> list[GraphVersion]:
        """Return all graphs, including removed ones."""
        return self._graphs.versions

    def look(self, model: ir.Model) -> Changes:
        """Visit a whole model; a rebuilt one is matched by the descriptions of its parts."""
        seen, present = Seen(), Present()
        for graph, number in self._graphs.roots(model):
            self._see(graph, number, seen, present)
        if len(present.nodes) - len(seen.fresh) < len(self.nodes):
            seen.gone = {node: known for node, known in self.nodes.items() if node not in present.nodes}
        if len(present.values) - sum(value not in self.values for value in seen.values) < len(self.values):
            seen.lost = {value: known for value, known in self.values.items() if value not in present.values}
        self._graphs.keep(present.graphs)
        self._follow_rebuilt(seen)
        changes = self._settle(seen)
        self._link(seen, changes)
        return changes

    def touch(
        self, nodes: Iterable[ir.Node], users: Iterable[ir.Node], values: Iterable[ir.Value], graph: ir.Graph | None
    ) -> Changes:
        """Visit nodes, the remains of removed ones, and some values.

        Only the inputs of ``users`` may have changed; of a graph, its inputs and outputs.
        """
        seen = Seen()
        self._meet_all(nodes, seen)
        for node in users:
            known = self.nodes.get(node)
            if known is not None and node.graph is not None and node.inputs is not known.inputs:
                seen.altered[node] = known.version.graph
        lost = {number for known in seen.gone.values() for number in known.version.graphs}
        if lost:
            here = (*seen.fresh.items(), *seen.altered.items())
            lost -= {number for node, place in here for _, _, number in self._graphs.nested(node, place)}
        while lost:
            number = lost.pop()
            inner = self._graphs.drop(number)
            lost.update(inner_number for node in inner for inner_number in self.nodes[node].version.graphs)
            self._meet_all(inner, seen)
        for value in values:
            self._meet_value(value, seen)
        if graph is not None and graph in self._graphs:
            self._see_interface(graph, seen)
        return self._settle(seen)

    def stand_for(self, old: ir.Node, new: ir.Node, *, is_same: bool) -> None:
        """Map a node of another model to one of this; unless they are equal, the next visit compares them."""
        known = self.nodes[old]
        self._forget(old, known.version)
        self._keep(new, known.version)
        if not is_same:
            self.nodes[new] = known

    def version(self, thing: ir.Node | ir.Value) -> Item | None:
        """Return the version of a node, or of a value that no node computes."""
        if isinstance(thing, ir.Node):
            known = self.nodes.get(thing)
            return None if known is None else known.version
        return self.values.get(thing)

    def source(self, value: ir.Value) -> Item | None:
        """Return the version of the producer of a value, or of the value if it has none."""
        return self.version(value.producer() or value)

    def _see(self, graph: ir.Graph, number: int, seen: Seen, present: Present) -> None:
        """Compare the contents of a graph with the last visit."""
        present.graphs.add(graph)
        known_nodes, add_node, add_value = self.nodes, present.nodes.add, present.values.add
        for value in (*graph.inputs, *graph.initializers.values()):
            add_value(value)
            self._compare(value, number, seen)
        for node in graph:
            add_node(node)
            known = known_nodes.get(node)
            if known is None:
                seen.fresh[node] = number
            elif is_altered(node, known, number):
                seen.altered[node] = number
            for value in node.outputs:
                if value.name:
                    add_value(value)
                    self._compare(value, number, seen)
            if holds_graphs(node):
                for _, inner, inner_number in self._graphs.nested(node, number):
                    self._see(inner, inner_number, seen, present)
        self._see_interface(graph, seen)

    def _see_interface(self, graph: ir.Graph, seen: Seen) -> None:
        """Record changed inputs or outputs of a graph."""
        known = self._graphs[graph]
        inputs, outputs = graph.inputs, tuple(graph.outputs)
        if known.outputs and not same_objects(known.outputs, outputs):
            seen.slots.extend(zip(known.outputs, outputs, strict=False))
        known.outputs = outputs
        interface = tuple([value.name or "" for value in inputs]), tuple([value.name or "" for value in outputs])
        if known.interface != interface:
            if known.interface is None:
                known.version.inputs, known.version.outputs = interface
            known.interface = interface
            seen.interfaces.append(GraphInterface(known.version.number, *interface))

    def _constant(self, value: ir.Value) -> Constant | None:
        """Return the description of the content of an initializer, or of the result of a Constant node."""
        producer = value.producer()
        if producer is None:
            tensor = value.const_value
        else:
            attribute = producer.attributes.get("value")
            tensor = attribute.value if attribute is not None and attribute.type is _TENSOR else None
        return None if tensor is None else self._constants.of(tensor)

    def _compare(self, value: ir.Value, number: int, seen: Seen) -> None:
        """Record changes of a value's description."""
        kind, shape, is_initializer = value.type, value.shape, value.is_initializer()
        producer = value.producer()
        # A plain tuple is made much faster than a description, which few values need.
        found = (
            value.name or "",
            number,
            "input"
            if value.is_graph_input()
            else "initializer"
            if is_initializer
            else "output"
            if value.is_graph_output()
            else "",
            # A check by isinstance tests every member of the protocol each time.
            kind.dtype if type(kind) is ir.TensorType else None if kind is None else type_text(kind),
            None if shape is None else shape.dims,
            # Reading missing annotations would create a store for every value of a large graph.
            "" if value._metadata is None else annotations.get(value).get(DATATYPE, ""),  # pyright: ignore[reportPrivateUsage]
            self._constant(value) if is_initializer or (producer and is_constant_node(producer)) else None,
        )
        version = self.values.get(value)
        if version is None or version.description != found:
            seen.values[value] = Description(*found)

    def _meet_all(self, nodes: Iterable[ir.Node], seen: Seen) -> None:
        waiting, met = list(nodes), set[ir.Node]()
        while waiting:
            node = waiting.pop()
            if node not in met:
                met.add(node)
                waiting.extend(self._meet(node, seen))

    def _meet(self, node: ir.Node, seen: Seen) -> Iterator[ir.Node]:
        """Visit a node; yield the nodes that must be visited with it."""
        known, graph = self.nodes.get(node), node.graph
        if graph is None or graph not in self._graphs:
            if known is not None:
                yield from self._leave(node, known, seen)
            return
        number = self._graphs[graph].version.number
        if known is None:
            seen.fresh[node] = number
        elif is_altered(node, known, number):
            seen.altered[node] = number
        for value in node.outputs:
            if value.name:
                self._compare(value, number, seen)
        if holds_graphs(node):
            for _, inner, inner_number in self._graphs.nested(node, number):
                self._see_interface(inner, seen)
                for value in (*inner.inputs, *inner.initializers.values()):
                    self._compare(value, inner_number, seen)
                yield from inner

    def _leave(self, node: ir.Node, known: KnownNode, seen: Seen) -> Iterator[ir.Node]:
        """Record the removal of a node; yield its producers, which may be removed with it."""
        seen.gone[node] = known
        for value in known.outputs:
            version = self.values.get(value)
            if version is not None:
                seen.lost[value] = version
        for value in known.inputs:
            if value is None:
                continue
            producer = value.producer()
            if producer is None:
                if value.graph is None:
                    self._meet_value(value, seen)
            elif producer.graph is None:
                yield producer

    def _meet_value(self, value: ir.Value, seen: Seen) -> None:
        graph, version = value.graph, self.values.get(value)
        if graph is not None and graph in self._graphs:
            if value.name:
                self._compare(value, self._graphs[graph].version.number, seen)
        elif version is not None:
            seen.lost[value] = version

    def _follow_rebuilt(self, seen: Seen) -> None:
        """Identify new nodes and values with removed ones of equal description."""
        if seen.lost:
            named = {version.description[:2]: value for value, version in seen.lost.items()}
            for value, description in list(seen.values.items()):
                if value not in self.values and description[:2] in named:
                    old = named.pop(description[:2])
                    version = self.values[value] = self.values.pop(old)
                    del seen.lost[old]
                    if version.description == description:
                        del seen.values[value]
        if seen.gone:
            alike = {look_of(known.version): node for node, known in seen.gone.items()}
            for node, number in list(seen.fresh.items()):
                new = self._new_node(node, number, count=False)
                old = alike.pop(look_of(new), None)
                if old is not None:
                    version = seen.gone.pop(old).version
                    self._forget(old, version)
                    self._keep(node, version)
                    # Equal values; those of the removed node would keep it, and its tensors, alive.
                    version.attributes = new.attributes
                    del seen.fresh[node]

    def _settle(self, seen: Seen) -> Changes:
        """Create versions of new and changed items, and link them with the old ones."""
        changes, renamed = Changes(interfaces=seen.interfaces), list[ir.Value]()
        for value, version in seen.lost.items():
            changes.values.append((version, None))
            del self.values[value]
        for value, description in seen.values.items():
            old = self.values.get(value)
            new = self.values[value] = self._new_value(description)
            changes.values.append((old, new))
            if old is not None and old.name != new.name:
                renamed.append(value)
                if new.is_source:
                    changes.links.append((new, old))
        for value in renamed:
            self._alter_around(value, seen)
        for node, known in seen.gone.items():
            changes.removed.append(known.version)
            self._forget(node, known.version)
        for node, number in seen.altered.items():
            self._alter(node, number, changes, seen)
        for node, number in seen.fresh.items():
            changes.added.append(self._keep(node, self._new_node(node, number)))
        return changes

    def _alter_around(self, value: ir.Value, seen: Seen) -> None:
        """Record the changed texts of the producer and consumers of a renamed value."""
        producer = value.producer()
        for node in (*(() if producer is None else (producer,)), *(use.node for use in value.uses())):
            known = self.nodes.get(node)
            if known is not None and node not in seen.altered and node not in seen.gone and node.graph is not None:
                seen.altered[node] = known.version.graph

    def _alter(self, node: ir.Node, number: int, changes: Changes, seen: Seen) -> None:
        known = self.nodes[node]
        old = known.version
        if known.inputs is not node.inputs:
            seen.slots.extend(zip(known.inputs, node.inputs, strict=False))
        attributes = tuple(node.attributes.data.values())
        new = self._new_node(node, number, count=False)
        is_same = same_objects(known.attributes, attributes) and (old.op, old.name, old.outputs, old.graph) == (
            new.op,
            new.name,
            new.outputs,
            number,
        )
        if is_same and old.inputs == new.inputs:
            self._keep(node, old)
            return
        new.number = self._next_node()
        self._forget(node, old)
        self._keep(node, new)
        if is_same:
            changes.rewired.append((old, new))
        else:
            changes.removed.append(old)
            changes.added.append(new)
            changes.links.append((new, old))

    def _link(self, seen: Seen, changes: Changes) -> None:
        """Link removed items with their replacements: those of the same name, or used in their place."""
        gone: dict[ir.Node | ir.Value, Item] = {node: known.version for node, known in seen.gone.items()}
        gone.update((value, version) for value, version in seen.lost.items() if version.is_source)
        if not gone:
            return
        added: list[Item] = [
            *changes.added,
            *(new for old, new in changes.values if old is None and new and new.is_source),
        ]
        by_result = {name: item for item in added for name in item.outputs if name}
        links = dict.fromkeys(changes.links)
        heirs: dict[tuple[Item, Item], None] = {}
        for item in gone.values():
            links.update({(by_result[name], item): None for name in item.outputs if name in by_result})
        fresh = set(added)
        for old, now in seen.slots:
            if old is None or now is None or old is now:
                continue
            item, heir = gone.get(old.producer() or old), self.source(now)
            if item is not None and heir is not None:
                (links if heir in fresh else heirs)[heir, item] = None
        changes.links, changes.heirs = list(links), list(heirs)

    def _keep(self, node: ir.Node, version: NodeVersion) -> NodeVersion:
        self.nodes[node] = KnownNode(
            version,
            (node.domain, node.op_type, node.overload, node.name),
            node.inputs,
            tuple(node.attributes.data.values()),
            node.outputs,
        )
        if version.graph:
            self._graphs.members(version.graph)[node] = None
        return version

    def _forget(self, node: ir.Node, version: NodeVersion) -> None:
        self.nodes.pop(node, None)
        if version.graph:
            self._graphs.members(version.graph).pop(node, None)

    def _new_node(self, node: ir.Node, number: int, *, count: bool = True) -> NodeVersion:
        held = tuple(inner for _, _, inner in self._graphs.nested(node, number)) if holds_graphs(node) else ()
        return NodeVersion(
            operator_name(node),
            node.name or "",
            input_names(node),
            output_names(node),
            self._next_node() if count else -1,
            number,
            tuple(self._attributes(node)),
            held,
            scope_of(node),
        )

    def _new_value(self, description: Description) -> ValueVersion:
        kind = {"initializer": "initializer", "input": "graph input"}.get(description.kind, "value")
        self.count_values += 1
        return ValueVersion(kind, description.name, (), (description.name,), self.count_values - 1, description)

    def _next_node(self) -> int:
        self.count_nodes += 1
        return self.count_nodes - 1

    def _attributes(self, node: ir.Node) -> Iterator[Attribute]:
        for attribute in node.attributes.data.values():
            if attribute.is_ref() or attribute.type not in (_TENSOR, _TENSORS, _GRAPH, _GRAPHS):
                yield attribute
            elif attribute.type is _TENSOR:
                yield attribute.name, self._constants.of(attribute.value)


_SCOPES = ("namespace", "pkg.torch.onnx.name_scopes")
"""Metadata in which exporters store the module of a node."""


@dataclass(slots=True, eq=False)
class KnownNode:
    """Existing node: its version, and the objects whose identity shows changes without comparing texts."""

    version: NodeVersion
    operator: tuple[str, str, str, str | None]
    inputs: Sequence[ir.Value | None]
    attributes: tuple[ir.Attr, ...]
    outputs: Sequence[ir.Value]


@dataclass(slots=True)
class Seen:
    """The changes that a visit of a model, or of a part of it, found."""

    fresh: dict[ir.Node, int] = field(default_factory=dict[ir.Node, int])
    altered: dict[ir.Node, int] = field(default_factory=dict[ir.Node, int])
    gone: dict[ir.Node, KnownNode] = field(default_factory=dict[ir.Node, KnownNode])
    values: dict[ir.Value, Description] = field(default_factory=dict[ir.Value, Description])
    lost: dict[ir.Value, ValueVersion] = field(default_factory=dict[ir.Value, ValueVersion])
    slots: list[tuple[ir.Value | None, ir.Value | None]] = field(
        default_factory=list[tuple[ir.Value | None, ir.Value | None]]
    )
    interfaces: list[GraphInterface] = field(default_factory=list[GraphInterface])


@dataclass(slots=True)
class Present:
    """Everything in a model."""

    graphs: set[ir.Graph] = field(default_factory=set[ir.Graph])
    nodes: set[ir.Node] = field(default_factory=set[ir.Node])
    values: set[ir.Value] = field(default_factory=set[ir.Value])


def is_altered(node: ir.Node, known: KnownNode, number: int) -> bool:
    """Return whether a node may differ from its version."""
    return (
        known.inputs is not node.inputs
        or known.version.graph != number
        or known.operator != (node.domain, node.op_type, node.overload, node.name)
        or known.outputs is not node.outputs
        or not same_objects(known.attributes, node.attributes.data.values())
    )


def same_objects(a: Sequence[object], b: Iterable[object]) -> bool:
    """Return whether two sequences hold the same objects."""
    others = tuple(b)
    return len(a) == len(others) and all(map(is_, a, others))


def look_of(version: NodeVersion) -> tuple[object, ...]:
    """Return all properties of a node."""
    return version.graph, version.op, version.name, version.inputs, version.outputs, tuple(version.texts.items())


def scope_of(node: ir.Node) -> str:
    """Return the modules of a node as its exporter wrote them."""
    texts = node._metadata_props  # pyright: ignore[reportPrivateUsage]
    return next((texts[key] for key in _SCOPES if key in texts), "") if texts else ""
