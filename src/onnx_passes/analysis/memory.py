"""Memory: what nodes read and write, and how much is alive at once when a model runs node by node.

Weights are not counted among the values that are alive. Reshape and its like share the memory of their input. Inputs
are alive until they are read last, results until then or, if the graph returns them, to the end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import onnx_ir as ir

from onnx_passes.analysis.amounts import UnknownSizeError, nbytes, nominal, total
from onnx_passes.core.walk import all_nodes, nested_graphs
from onnx_passes.graph.extents import Amount
from onnx_passes.graph.wording import name_of

VIEWS = frozenset(("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"))
_PICKING = frozenset(("Gather", "GatherElements", "GatherND", "Slice"))
_ONLY_SHAPE = frozenset(("Shape", "Size"))


class Peak(NamedTuple):
    """The most that is alive at once, in bytes, and the node that runs then; values of unknown size count nothing."""

    bytes: Amount
    at: str
    unknown: int


class Traffic(NamedTuple):
    """Bytes that a node moves: activations and weights that it reads, results that it writes."""

    read: Amount
    weights: Amount
    written: Amount


def is_weight(value: ir.Value) -> bool:
    """Tell whether a value comes with the model: an initializer, also one with a default only, or a Constant."""
    producer = value.producer()
    return value.is_initializer() if producer is None else producer.op_type == "Constant" and not producer.domain


def is_view(node: ir.Node) -> bool:
    """Tell whether the result is the first input under another shape, in the same memory."""
    return node.op_type in VIEWS and not node.domain


def traffic_of(node: ir.Node) -> Traffic:
    """Return what a node moves; views move nothing, picking reads what it picks. Raises UnknownSizeError."""
    if node.domain == "" and (is_view(node) or node.op_type == "Constant"):
        return Traffic(0, 0, 0)
    written = total(map(nbytes, node.outputs))
    read: Amount = 0
    weights: Amount = 0
    for index, value in enumerate(dict.fromkeys(node.inputs)):
        if value is None or (node.domain == "" and node.op_type in _ONLY_SHAPE):
            continue
        picked = index == 0 and node.domain == "" and node.op_type in _PICKING
        moved = written if picked else nbytes(value)
        if is_weight(value):
            weights = weights + moved
        else:
            read = read + moved
    return Traffic(read, weights, written)


def peak_of(graph: ir.Graph) -> Peak:
    """Follow the execution order of a graph; bodies of a node add what is alive inside them while it runs."""
    nodes = list(graph)
    buffers: dict[ir.Value, ir.Value] = {}
    last = {value: -1 for value in graph.inputs if not value.is_initializer()}
    for index, node in enumerate(nodes):
        for value in _reads(node):
            last[buffers.get(value, value)] = index
        source = node.inputs[0] if node.inputs else None
        viewed = source if is_view(node) and source is not None and not is_weight(source) else None
        for value in node.outputs:
            buffers[value] = value if viewed is None else buffers.get(viewed, viewed)
            last.setdefault(buffers[value], index)
    for value in graph.outputs:
        last[buffers.get(value, value)] = len(nodes)
    given = [value for value in graph.inputs if last.get(value, -1) >= 0 and not value.is_initializer()]
    return _follow(nodes, given, buffers, last)


def _follow(
    nodes: list[ir.Node], given: list[ir.Value], buffers: dict[ir.Value, ir.Value], last: dict[ir.Value, int]
) -> Peak:
    sizes = _Sizes()
    ends: defaultdict[int, list[ir.Value]] = defaultdict(list)
    for value, index in last.items():
        ends[index].append(value)
    own = set(given)
    alive = total(map(sizes.of, given))
    highest = Peak(alive, "the inputs", 0)
    for index, node in enumerate(nodes):
        for value in node.outputs:
            if buffers[value] is value and not is_weight(value):
                alive = alive + sizes.of(value)
                own.add(value)
        inside = max((peak_of(nested) for nested in nested_graphs(node)), key=_height, default=None)
        now = alive if inside is None else alive + inside.bytes
        if nominal(now) > nominal(highest.bytes):
            highest = Peak(now, name_of(node), 0)
        sizes.unknown += 0 if inside is None else inside.unknown
        for value in ends[index]:
            if value in own:
                alive = alive - sizes.of(value)
    return highest._replace(unknown=sizes.unknown)


def _height(peak: Peak) -> int:
    return nominal(peak.bytes)


class _Sizes:
    """Sizes of buffers, each asked for once."""

    def __init__(self) -> None:
        self._known: dict[ir.Value, Amount] = {}
        self.unknown = 0

    def of(self, value: ir.Value) -> Amount:
        if value not in self._known:
            try:
                self._known[value] = nbytes(value)
            except UnknownSizeError:
                self._known[value] = 0
                self.unknown += 1
        return self._known[value]


def _reads(node: ir.Node) -> Iterator[ir.Value]:
    """Yield what a node reads, also inside its bodies."""
    yield from (value for value in node.inputs if value is not None)
    for graph in nested_graphs(node):
        for inner in all_nodes(graph):
            yield from (value for value in inner.inputs if value is not None)
        yield from graph.outputs
