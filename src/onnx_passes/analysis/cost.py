"""Cost of running a model: computation, parameters and memory traffic of every node, sums, and peak memory."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import onnx_ir as ir

from onnx_passes.core.plain import plain
from onnx_passes.core.walk import all_nodes, nested_graphs
from onnx_passes.graph.constants import is_constant_node, tensor_of_constant_node
from onnx_passes.graph.extents import Amount, Extent
from onnx_passes.graph.wording import dim_text, name_of, operator_name
from onnx_passes.ops.facts.work import UnknownSizeError, Work, nbytes, nominal, total, work_of

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
    return value.is_initializer() if producer is None else is_constant_node(producer)


def is_view(node: ir.Node) -> bool:
    """Tell whether the result is the first input under another shape, in the same memory."""
    return node.op_type in VIEWS and not node.domain


def traffic_of(node: ir.Node) -> Traffic:
    """Return what a node moves; views move nothing, picking reads what it picks. Raises UnknownSizeError."""
    if node.domain == "" and (is_view(node) or is_constant_node(node)):
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


SCALAR = "scalar"


class NodeCost(NamedTuple):
    """One node: an amount that is not known is ``None``, and ``unknown`` says why.

    ``scope`` names the nodes whose bodies hold it, outermost first: how often these run is not known, they count once.
    ``parameters`` are those that no node before it reads; ``weight_bytes`` all that it reads.
    """

    name: str
    operator: str
    scope: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    macs: Amount | None
    operations: Amount | None
    parameters: int
    weight_bytes: Amount | None
    read_bytes: Amount | None
    written_bytes: Amount | None
    unknown: str = ""


@dataclass(frozen=True)
class ModelCost:
    """The cost of all nodes in execution order; sums leave out what is not known.

    ``uncounted`` has the operators without a formula: their computation counts nothing.
    """

    layers: tuple[NodeCost, ...]
    peak: Peak
    uncounted: Counter[str]

    @cached_property
    def macs(self) -> Amount:
        """Return the multiply-accumulates."""
        return total(layer.macs for layer in self.layers)

    @cached_property
    def operations(self) -> Amount:
        """Return the operations other than multiply-accumulates."""
        return total(layer.operations for layer in self.layers)

    @cached_property
    def parameters(self) -> int:
        """Return the number of elements that come with the model and are read, also those in Constant nodes."""
        return sum(layer.parameters for layer in self.layers)

    @cached_property
    def weight_bytes(self) -> Amount:
        """Return the bytes of weights that are read."""
        return total(layer.weight_bytes for layer in self.layers)

    @cached_property
    def read_bytes(self) -> Amount:
        """Return the bytes of activations that are read."""
        return total(layer.read_bytes for layer in self.layers)

    @cached_property
    def written_bytes(self) -> Amount:
        """Return the bytes that are written."""
        return total(layer.written_bytes for layer in self.layers)

    @property
    def unknown(self) -> tuple[NodeCost, ...]:
        """Return the layers of which some amount is not known."""
        return tuple(layer for layer in self.layers if layer.unknown)

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """Return the names of the dimensions that amounts depend on."""
        amounts = (self.macs, self.operations, self.read_bytes, self.written_bytes, self.peak.bytes)
        return tuple(sorted({name for amount in amounts if isinstance(amount, Extent) for name in amount.symbols()}))

    def share(self, macs: Amount | None) -> float:
        """Return which part of all multiply-accumulates some are, between 0 and 1."""
        return nominal(macs) / nominal(self.macs) if macs and self.macs else 0.0

    def by_operator(self) -> dict[str, tuple[int, Amount, Amount]]:
        """Map each operator to the number of its nodes, and the sums of their MACs and other operations."""
        groups: dict[str, list[NodeCost]] = {}
        for layer in self.layers:
            groups.setdefault(layer.operator, []).append(layer)
        return {
            name: (len(layers), total(x.macs for x in layers), total(x.operations for x in layers))
            for name, layers in groups.items()
        }

    def to_json(self, *, layers: bool = True) -> dict[str, Any]:
        """Return plain data; amounts that depend on dynamic dimensions are formulas, as text.

        ``macs, operations, parameters, weight_bytes, read_bytes, written_bytes``: sums over all nodes.
        ``peak_activation_bytes``, ``peak_at``, ``peak_without``: the most that is alive at once, the node that runs
        then, and the number of values left out because their size is not known.
        ``symbols``: dimensions in the formulas. ``unknown``: nodes left out of a sum, with the reason.
        ``uncounted``: nodes by operator whose computation counts nothing, for want of a formula.
        ``operators``: nodes, MACs and operations by operator. ``layers``: every node.
        """
        sums = ("macs", "operations", "parameters", "weight_bytes", "read_bytes", "written_bytes")
        data: dict[str, Any] = {
            **{name: getattr(self, name) for name in sums},
            "peak_activation_bytes": self.peak.bytes,
            "peak_at": self.peak.at,
            "peak_without": self.peak.unknown,
            "symbols": self.symbols,
            "unknown": [
                {"node": layer.name, "operator": layer.operator, "why": layer.unknown} for layer in self.unknown
            ],
            "uncounted": self.uncounted,
            "operators": {
                name: {"nodes": nodes, "macs": macs, "operations": operations}
                for name, (nodes, macs, operations) in self.by_operator().items()
            },
        }
        return plain(data | {"layers": self.layers} if layers else data)


def cost_of(model: ir.Model) -> ModelCost:
    """Count what every node costs by the shapes that are known: infer them first."""
    seen: set[ir.Value] = set()
    uncounted: Counter[str] = Counter()
    layers: list[NodeCost] = []
    for node, scope in _nodes(model.graph, ""):
        if is_constant_node(node):
            continue
        layers.append(_layer(node, scope, seen, uncounted))
    return ModelCost(tuple(layers), peak_of(model.graph), uncounted)


def _nodes(graph: ir.Graph, scope: str) -> Iterator[tuple[ir.Node, str]]:
    for node in graph:
        yield node, scope
        for nested in nested_graphs(node):
            yield from _nodes(nested, f"{scope} > {name_of(node)}" if scope else name_of(node))


def _layer(node: ir.Node, scope: str, seen: set[ir.Value], uncounted: Counter[str]) -> NodeCost:
    work: Work | None = None
    traffic: Traffic | None = None
    unknown = ""
    try:
        work = work_of(node)
        if work is None:
            uncounted[operator_name(node)] += 1
            work = Work()
    except UnknownSizeError as error:
        unknown = str(error)
    try:
        traffic = traffic_of(node)
    except UnknownSizeError as error:
        unknown = unknown or str(error)
    return NodeCost(
        name=node.name or (node.outputs[0].name if node.outputs else None) or "",
        operator=operator_name(node),
        scope=scope,
        inputs=tuple(_shape_text(value) for value in node.inputs),
        outputs=tuple(_shape_text(value) for value in node.outputs),
        macs=None if work is None else work.macs,
        operations=None if work is None else work.operations,
        parameters=_parameters(node, seen),
        weight_bytes=None if traffic is None else traffic.weights,
        read_bytes=None if traffic is None else traffic.read,
        written_bytes=None if traffic is None else traffic.written,
        unknown=unknown,
    )


def _parameters(node: ir.Node, seen: set[ir.Value]) -> int:
    """Count the weights that a node is the first to read."""
    count = 0
    for value in node.inputs:
        if value is not None and value not in seen and is_weight(value):
            seen.add(value)
            producer = value.producer()
            tensor = value.const_value or (None if producer is None else tensor_of_constant_node(producer))
            count += 0 if tensor is None else tensor.size
    return count


def _shape_text(value: ir.Value | None) -> str:
    if value is None or value.name == "":
        return ""
    return "?" if value.shape is None else "×".join(dim_text(dim) for dim in value.shape) or SCALAR
