"""Align two graphs: pair their nodes and values without relying on names.

Nodes are paired in rounds of decreasing certainty: equal operands and equal uses; equal operands; equal uses; the same
operator next to a paired node; the same operator in the same order; any operator between paired nodes. Names only
break ties.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from difflib import SequenceMatcher
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import onnx_ir as ir

from onnx_passes.graph.hashing.content import Contents, operator, present_inputs
from onnx_passes.graph.signatures import KeyNumbers, Signatures, ValueUse

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Sequence

Sign: TypeAlias = "Callable[[Signatures, ir.Node], Hashable]"
Uses: TypeAlias = "Sequence[tuple[ir.Node, int]]"

_MOST_COMPARED = 4_000_000
"""Maximum number of pairs for which the best order of the remaining nodes is computed."""


class Alignment:
    """The corresponding nodes, initializers and interface values of two graphs; each has at most one partner."""

    def __init__(self, a: ir.Graph, b: ir.Graph, contents: Contents) -> None:
        self.inputs = pair_by_name(a.inputs, b.inputs)
        self.outputs = pair_by_name(a.outputs, b.outputs)
        numbers = KeyNumbers()
        self.a = Signatures(a, contents, numbers, _labels(self.inputs, 0), _labels(self.outputs, 0))
        self.b = Signatures(b, contents, numbers, _labels(self.inputs, 1), _labels(self.outputs, 1))
        self.nodes: dict[ir.Node, ir.Node] = {}
        self.values: dict[ir.Value, ir.Value] = {
            value_a: value_b for value_a, value_b in self.inputs if value_a and value_b
        }
        self._contents = contents
        self._paired: set[ir.Node | ir.Value] = {*self.values.values()}
        self._fresh: list[tuple[ir.Node, ir.Node]] = []
        self._match_nodes()
        self._match_constants()

    def corresponds(self, a: ir.Value | None, b: ir.Value | None) -> bool:
        """Return whether two values correspond, given the pairs so far."""
        if a is None or b is None:
            return a is b
        producer_a, producer_b = self.a.producer(a), self.b.producer(b)
        if producer_a is not None and producer_b is not None:
            return self.nodes.get(producer_a) is producer_b and a.index() == b.index()
        if a in self.values:
            return self.values[a] is b
        return self.a.is_outside(a) and self.b.is_outside(b) and a.name == b.name

    @property
    def removed_nodes(self) -> list[ir.Node]:
        """Return the nodes of the first graph that have no partner."""
        return [node for node in self.a.graph.all_nodes() if node not in self.nodes]

    @property
    def added_nodes(self) -> list[ir.Node]:
        """Return the nodes of the second graph that have no partner."""
        return [node for node in self.b.graph.all_nodes() if node not in self._paired]

    @property
    def removed_constants(self) -> list[ir.Value]:
        """Return the initializers of the first graph that have no partner."""
        return [value for value in self.a.constants if value not in self.values]

    @property
    def added_constants(self) -> list[ir.Value]:
        """Return the initializers of the second graph that have no partner."""
        return [value for value in self.b.constants if value not in self._paired]

    def _match_nodes(self) -> None:
        self._round(lambda side, node: (side.up[node], side.down[node]))
        self._round(lambda side, node: side.up[node])
        self._round(lambda side, node: side.down[node])
        self._spread_everywhere()
        self._match_in_sequence(lambda side, node: (side.keys[node], *map(self._key, side.constants_of(node))))
        self._match_in_sequence(lambda side, node: side.keys[node])
        self._match_between()
        self._spread_everywhere()
        for node_a, node_b in self.nodes.items():
            for graph_a, graph_b in zip(self.a.held(node_a), self.b.held(node_b), strict=False):
                for value_a, value_b in zip(graph_a.inputs, graph_b.inputs, strict=False):
                    self._pair_values(value_a, value_b)

    def _round(self, sign: Sign) -> None:
        """Pair nodes of equal sign: unique candidates first, then by their consumers, by name, and in order."""
        groups_a, groups_b = self._groups(self.a, sign), self._groups(self.b, sign)
        shared = [(nodes, groups_b[key]) for key, nodes in groups_a.items() if key in groups_b]
        ambiguous = [group for group in shared if not len(group[0]) == len(group[1]) == 1]
        for nodes_a, nodes_b in shared:
            if len(nodes_a) == len(nodes_b) == 1:
                self._pair(nodes_a[0], nodes_b[0])
        if ambiguous:
            self._spread(sign)
        for nodes_a, nodes_b in ambiguous:
            self._pair_by_readers(nodes_a, nodes_b, sign)
            named = {node.name: node for node in nodes_b}
            self._pair_in_order(((node, named[node.name]) for node in nodes_a if node.name in named), sign)
            free_b = (node for node in nodes_b if node not in self._paired)
            free_a = (node for node in nodes_a if node not in self.nodes)
            self._pair_in_order(zip(free_a, free_b, strict=False), sign)
        self._fresh.clear()

    def _pair_in_order(self, pairs: Iterable[tuple[ir.Node, ir.Node]], sign: Sign) -> None:
        for node_a, node_b in pairs:
            if self._are_free(node_a, node_b):
                self._pair(node_a, node_b)
                self._spread(sign)

    def _pair_by_readers(self, nodes_a: Sequence[ir.Node], nodes_b: Sequence[ir.Node], sign: Sign) -> None:
        """Pair nodes that most of the same, already paired, consumers read."""
        candidates = set(nodes_b)
        votes = Counter((node, other) for node in nodes_a for other in self._read_instead(node) if other in candidates)
        self._pair_in_order((pair for pair, _ in votes.most_common()), sign)

    def _groups(self, side: Signatures, sign: Sign) -> dict[Hashable, list[ir.Node]]:
        groups: defaultdict[Hashable, list[ir.Node]] = defaultdict(list)
        for node in side.order:
            if node not in self.nodes and node not in self._paired:
                groups[sign(side, node)].append(node)
        return groups

    def _are_free(self, a: ir.Node, b: ir.Node) -> bool:
        return a not in self.nodes and b not in self._paired

    def _pair(self, a: ir.Node, b: ir.Node) -> None:
        self.nodes[a] = b
        self._paired.add(b)
        self._fresh.append((a, b))

    def _pair_values(self, a: ir.Value, b: ir.Value) -> None:
        if a not in self.values and b not in self._paired:
            self.values[a] = b
            self._paired.add(b)

    def _spread(self, sign: Sign, *, unique: bool = False) -> None:
        """Pair the neighbours of the latest pairs if they have equal signs at the same place."""
        while self._fresh:
            node_a, node_b = self._fresh.pop()
            for value_a, value_b in zip(node_a.inputs, node_b.inputs, strict=False):
                self._spread_to_producer(value_a, value_b, sign)
            for graph_a, graph_b in zip(self.a.held(node_a), self.b.held(node_b), strict=False):
                for value_a, value_b in zip(graph_a.outputs, graph_b.outputs, strict=False):
                    self._spread_to_producer(value_a, value_b, sign)
            for value_a, value_b in zip(node_a.outputs, node_b.outputs, strict=False):
                self._spread_to_readers(value_a, value_b, sign, unique=unique)
            holder_a, holder_b = self.a.holder(node_a), self.b.holder(node_b)
            if holder_a is not None and holder_b is not None:
                self._pair_if_alike(holder_a.node, holder_b.node, sign)

    def _spread_to_producer(self, a: ir.Value | None, b: ir.Value | None, sign: Sign) -> None:
        producer_a, producer_b = self.a.producer(a), self.b.producer(b)
        if a is None or b is None or producer_a is None or producer_b is None or a.index() != b.index():
            return
        self._pair_if_alike(producer_a, producer_b, sign)

    def _spread_to_readers(self, a: ir.Value, b: ir.Value, sign: Sign, *, unique: bool) -> None:
        places_a = self._places(self.a, self.a.readers(a), sign)
        if not places_a:
            return
        places_b = self._places(self.b, self.b.readers(b), sign)
        for place, nodes_a in places_a.items():
            nodes_b = places_b.get(place, [])
            if len(nodes_a) != len(nodes_b) or (unique and len(nodes_a) > 1):
                continue
            for node_a, node_b in zip(nodes_a, nodes_b, strict=True):
                if self._are_free(node_a, node_b):
                    self._pair(node_a, node_b)

    def _places(self, side: Signatures, uses: Uses, sign: Sign) -> dict[Hashable, list[ir.Node]]:
        places: defaultdict[Hashable, list[ir.Node]] = defaultdict(list)
        for node, position in uses:
            if node not in self.nodes and node not in self._paired:
                places[sign(side, node), position].append(node)
        return places

    def _pair_if_alike(self, a: ir.Node, b: ir.Node, sign: Sign) -> None:
        if self._are_free(a, b) and sign(self.a, a) == sign(self.b, b):
            self._pair(a, b)

    def _spread_everywhere(self) -> None:
        """Pair nodes of the same operator that are the only candidates next to a pair."""

        def sign(_: Signatures, node: ir.Node) -> Hashable:
            return operator(node)

        for value_a, value_b in self.outputs:
            self._spread_to_producer(value_a, value_b, sign)
        for value_a, value_b in tuple(self.values.items()):
            self._spread_to_readers(value_a, value_b, sign, unique=True)
        unpaired = (node for node in self.a.order if node not in self.nodes)
        beside = {other: None for node in unpaired for other in self.a.neighbours(node) if other in self.nodes}
        self._fresh = [(node, self.nodes[node]) for node in beside]
        self._spread(sign, unique=True)

    def _match_in_sequence(self, sign: Sign) -> None:
        """Pair nodes of equal sign that come in the same order between paired ones.

        If nodes were removed all along a chain, the remaining ones have no neighbour in common with the original.
        """
        partners = {node_b: node_a for node_a, node_b in self.nodes.items()}
        beside = _beside(self.a.order, self.nodes) | {partners[node] for node in _beside(self.b.order, partners)}
        nodes_a = [node for node in self.a.order if node not in self.nodes or node in beside]
        nodes_b = [node for node in self.b.order if node not in partners or partners[node] in beside]
        if not nodes_a or not nodes_b or len(nodes_a) * len(nodes_b) > _MOST_COMPARED:
            return
        tokens_a = [node if node in self.nodes else sign(self.a, node) for node in nodes_a]
        tokens_b = [partners[node] if node in partners else sign(self.b, node) for node in nodes_b]
        for block in SequenceMatcher(None, tokens_a, tokens_b, autojunk=False).get_matching_blocks():
            for offset in range(block.size):
                node_a, node_b = nodes_a[block.a + offset], nodes_b[block.b + offset]
                if self._are_free(node_a, node_b):
                    self._pair(node_a, node_b)
        self._spread_everywhere()

    def _match_between(self) -> None:
        """Pair nodes of any operator that share an input and a place where their output is read."""
        for node in self.a.order:
            if node in self.nodes:
                continue
            other = next((other for other in self._read_instead(node) if other not in self._paired), None)
            if other is None:
                continue
            inputs = list(zip(present_inputs(node), present_inputs(other), strict=False))
            if not inputs or any(self._look_alike(value_a, value_b) for value_a, value_b in inputs):
                self._pair(node, other)

    def _look_alike(self, a: ir.Value | None, b: ir.Value | None) -> bool:
        """Return whether two values correspond, or would if equal initializers were paired."""
        if a is None or b is None:
            return False
        if self.a.is_constant(a) and self.b.is_constant(b):
            return self._key(a) == self._key(b)
        return self.corresponds(a, b)

    def _read_instead(self, node: ir.Node) -> Iterator[ir.Node]:
        """Yield the nodes of the other graph that are read at the places of this one, once for each place."""
        for value in node.outputs:
            for place in self.a.places(value):
                source = self.b.source(self._translate(place))
                if source is not None and source.index() == value.index():
                    producer = self.b.producer(source)
                    if producer is not None:
                        yield producer

    def _translate(self, place: ValueUse) -> ValueUse | None:
        """Return the corresponding place in the other graph; None if its reader is not paired."""
        reader = self.nodes.get(place.reader) if place.reader is not None else None
        return place._replace(reader=reader) if reader is not None or place.reader is None else None

    def _match_constants(self) -> None:
        """Pair equal initializers at the same place or in the same node, then unequal ones at one place."""
        for value_a, value_b in self._constants_at_same_place():
            if self._key(value_a) == self._key(value_b):
                self._pair_values(value_a, value_b)
        for node_a, node_b in self.nodes.items():
            self._match_equal(self.a.constants_of(node_a), self.b.constants_of(node_b), self._key)
        for value_a, value_b in self._constants_at_same_place():
            self._pair_values(value_a, value_b)
        self._match_equal(self.a.constants, self.b.constants, lambda value: (self._key(value), value.name))
        self._match_equal(self.a.constants, self.b.constants, self._key)

    def _constants_at_same_place(self) -> Iterator[tuple[ir.Value, ir.Value]]:
        for node_a, node_b in self.nodes.items():
            for a, b in zip(node_a.inputs, node_b.inputs, strict=False):
                if a is None or b is None or a in self.values or b in self._paired:
                    continue
                if self.a.is_constant(a) and self.b.is_constant(b):
                    yield a, b

    def _key(self, value: ir.Value) -> Hashable:
        return self._contents.initial_value(value)

    def _match_equal(self, a: Iterable[ir.Value], b: Iterable[ir.Value], key: Callable[[ir.Value], Hashable]) -> None:
        """Pair the remaining initializers with equal keys."""
        left: defaultdict[Hashable, list[ir.Value]] = defaultdict(list)
        for value in b:
            if value not in self._paired:
                left[key(value)].append(value)
        for value in a if left else ():
            if value not in self.values and left[key(value)]:
                self._pair_values(value, left[key(value)].pop(0))


def _beside(order: Sequence[ir.Node], paired: Container[ir.Node]) -> set[ir.Node]:
    """Return the paired nodes just before or after an unpaired one."""
    found: set[ir.Node] = set()
    for before, after in pairwise(order):
        if (before in paired) != (after in paired):
            found.add(before if before in paired else after)
    return found


def pair_by_name(a: Sequence[ir.Value], b: Sequence[ir.Value]) -> list[tuple[ir.Value | None, ir.Value | None]]:
    """Pair the inputs or outputs of two graphs by name, and the remaining ones in order."""
    named_b = {value.name: value for value in b}
    names_a = {value.name for value in a}
    rest = iter([value for value in b if value.name not in names_a])
    pairs = [(value, named_b[value.name] if value.name in named_b else next(rest, None)) for value in a]
    return [*pairs, *((None, value) for value in rest)]


def _labels(pairs: Sequence[tuple[ir.Value | None, ir.Value | None]], side: int) -> dict[ir.Value, list[int]]:
    """Return the numbers of the pairs of each value of one graph."""
    labels: defaultdict[ir.Value, list[int]] = defaultdict(list)
    for number, pair in enumerate(pairs):
        value = pair[side]
        if value is not None:
            labels[value].append(number)
    return labels
