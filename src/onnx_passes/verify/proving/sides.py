"""What an application takes out and what it puts in, as two computations from the same values."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import onnx_ir as ir

from onnx_passes.core.records import Application
from onnx_passes.core.walk import nested_graphs
from onnx_passes.graph.constants import is_constant
from onnx_passes.graph.randomness import is_random

_MOST = 400
"""Nodes of one side, at most."""
_SETTLED = 24
"""Nodes that compute one value from constants, or from shapes."""
_INDICES = frozenset({ir.DataType.INT64, ir.DataType.INT32, ir.DataType.BOOL})
"""Types of shapes, and of what is computed from them."""
_NEAR = 24
_FURTHER = 24
"""Nodes that are looked at beside those of an application, for a value that both sides come from."""


class NoSidesError(Exception):
    """The two computations cannot be written down by themselves, for a reason."""


@dataclass(frozen=True, eq=False)
class Side:
    """Nodes in order, what they compute, and the values they read that are neither computed here nor constant."""

    nodes: tuple[ir.Node, ...]
    results: tuple[ir.Value, ...]
    sources: tuple[ir.Value, ...]

    @cached_property
    def fixed(self) -> frozenset[ir.Value]:
        """Return the values that are computed from constants alone."""
        found = set[ir.Value]()
        for node in self.nodes:
            if all(value is None or value in found or is_constant(value) for value in node.inputs):
                found.update(node.outputs)
        return frozenset(found)

    def is_dynamic(self, value: ir.Value | None) -> bool:
        """Tell whether a value depends on what the side reads."""
        return value is not None and not is_constant(value) and value not in self.fixed

    @property
    def moving(self) -> Iterator[ir.Node]:
        """Iterate over the nodes whose results are not fixed, in order."""
        return (node for node in self.nodes if any(self.is_dynamic(value) for value in node.inputs))


def sides_of(application: Application) -> tuple[Side, Side]:
    """Return what computes the old values and what computes the new ones. Raises NoSidesError."""
    old, new = _Cone(application.matched), _Cone((*application.added, *application.matched))
    for before, after in application.replaced:
        old.reach(before)
        new.reach(after)
    for _ in range(_FURTHER):
        node = _next(old, new)
        if node is None:
            break
        old.inside.add(node)
        new.inside.add(node)
        old.again()
        new.again()
    return old.side(), new.side()


@dataclass
class _Cone:
    """All that values are computed by, as far back as some nodes and what depends on constants alone."""

    start: Collection[ir.Node]
    results: list[ir.Value] = field(default_factory=list[ir.Value])

    def __post_init__(self) -> None:
        self.inside = set(self.start)
        self.nodes: dict[ir.Node, None] = {}
        self.leaves: dict[ir.Value, None] = {}

    def reach(self, value: ir.Value) -> None:
        self.results.append(value)
        self._visit(value)

    def again(self) -> None:
        self.nodes.clear()
        self.leaves.clear()
        for value in self.results:
            self._visit(value)

    def side(self) -> Side:
        return Side(tuple(self.nodes), tuple(self.results), tuple(self.leaves))

    def reads_shape_of(self, value: ir.Value) -> bool:
        """Tell whether nothing of a value is read but its shape."""
        users = [node for node in self.nodes if value in node.inputs]
        return bool(users) and all(node.op_type == "Shape" and node.domain == "" for node in users)

    def _visit(self, value: ir.Value) -> None:
        """Take in what computes a value, inputs first."""
        waiting: list[tuple[ir.Value, bool]] = [(value, False)]
        while waiting:
            here, is_ready = waiting.pop()
            node = here.producer()
            if is_constant(here) or here in self.leaves or (node is not None and node in self.nodes):
                continue
            if node is None or (node not in self.inside and not is_settled(here)):
                self.leaves[here] = None
            elif is_ready:
                self.nodes[node] = None
                if len(self.nodes) > _MOST:
                    raise NoSidesError(f"more than {_MOST} nodes compute it")
            else:
                if not is_plain(node):
                    raise NoSidesError(f"{node.op_type} holds graphs, or computes something else each time")
                waiting.append((here, True))
                waiting.extend((given, False) for given in node.inputs if given is not None)


def _next(old: _Cone, new: _Cone) -> ir.Node | None:
    """Choose a node before one side that leads to what the other one reads."""
    for here, there in ((new, old), (old, new)):
        wanted = {*there.leaves, *(value for node in there.nodes for value in node.outputs)}
        for leaf in here.leaves:
            node = None if leaf in there.leaves or here.reads_shape_of(leaf) else leaf.producer()
            if node is not None and is_plain(node) and (leaf in wanted or _leads_to(node, wanted)):
                return node
    return None


def _leads_to(node: ir.Node, wanted: Collection[ir.Value]) -> bool:
    """Tell whether some values are not far before a node."""
    waiting, budget = deque([node]), _NEAR
    while waiting and budget:
        budget -= 1
        for value in waiting.popleft().inputs:
            if value is not None and value in wanted:
                return True
            if value is not None and (before := value.producer()) is not None:
                waiting.append(before)
    return False


def is_plain(node: ir.Node) -> bool:
    """Tell whether a node computes the same wherever and whenever it runs."""
    return not is_random(node) and not any(True for _ in nested_graphs(node))


def is_settled(value: ir.Value) -> bool:
    """Tell whether a value is computed from a few constants alone, or from shapes."""
    with_shapes = value.dtype in _INDICES
    budget, waiting = _SETTLED, [value]
    while waiting:
        here = waiting.pop()
        if is_constant(here):
            continue
        node = here.producer()
        budget -= 1
        if node is None or budget < 0 or not is_plain(node):
            return False
        if with_shapes and node.op_type == "Shape" and node.domain == "":
            continue
        waiting.extend(given for given in node.inputs if given is not None)
    return True


def shared_sources(sides: Sequence[Side]) -> tuple[ir.Value, ...]:
    """Return all values that sides read."""
    return tuple(dict.fromkeys(value for side in sides for value in side.sources))
