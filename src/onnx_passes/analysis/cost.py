"""What it costs to run a model: computation, parameters and memory traffic of every node, and their sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import onnx_ir as ir

from onnx_passes.analysis.amounts import UnknownSizeError, nominal, total
from onnx_passes.analysis.formulas import Work, work_of
from onnx_passes.analysis.memory import Peak, Traffic, is_weight, peak_of, traffic_of
from onnx_passes.core.plain import plain
from onnx_passes.core.walk import nested_graphs
from onnx_passes.graph.constants import tensor_of_constant_node
from onnx_passes.graph.extents import Amount, Extent
from onnx_passes.graph.wording import dim_text, name_of, operator_name

SCALAR = "scalar"


class Layer(NamedTuple):
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

    layers: tuple[Layer, ...]
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
    def unknown(self) -> tuple[Layer, ...]:
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
        groups: dict[str, list[Layer]] = {}
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
    layers: list[Layer] = []
    for node, scope in _nodes(model.graph, ""):
        if node.op_type == "Constant" and not node.domain:
            continue
        layers.append(_layer(node, scope, seen, uncounted))
    return ModelCost(tuple(layers), peak_of(model.graph), uncounted)


def _nodes(graph: ir.Graph, scope: str) -> Iterator[tuple[ir.Node, str]]:
    for node in graph:
        yield node, scope
        for nested in nested_graphs(node):
            yield from _nodes(nested, f"{scope} > {name_of(node)}" if scope else name_of(node))


def _layer(node: ir.Node, scope: str, seen: set[ir.Value], uncounted: Counter[str]) -> Layer:
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
    return Layer(
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
