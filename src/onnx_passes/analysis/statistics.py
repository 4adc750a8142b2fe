"""Summarize a model: interface, operators and opsets, parameters and their bytes, depth and width of its graph."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import onnx_ir as ir

from onnx_passes.core.errors import UsageError, did_you_mean
from onnx_passes.core.measure import measure
from onnx_passes.core.plain import plain
from onnx_passes.core.records import ModelSize
from onnx_passes.core.walk import all_graphs, all_nodes
from onnx_passes.graph import annotations
from onnx_passes.graph.constants import is_constant_node, tensor_of_constant_node
from onnx_passes.graph.edits import used_values
from onnx_passes.graph.extents import size_of, symbols_of
from onnx_passes.graph.map_types import map_text
from onnx_passes.graph.origin import origin
from onnx_passes.graph.wording import name_of


@dataclass(frozen=True)
class GraphStatistics:
    """Numbers on the outermost graph; bodies of control flow belong to their node, Constant nodes are no nodes here.

    ``edges`` are readings of results and inputs by nodes. ``depth`` counts the nodes of the longest path, ``width``
    the nodes at the most crowded distance from the inputs. ``forks`` are results and inputs that several nodes read,
    ``joins`` nodes that read several. ``parts`` are pieces that no value connects.
    """

    nodes: int
    edges: int
    depth: int
    width: int
    forks: int
    joins: int
    parts: int
    widest_fork: int
    unused_inputs: tuple[str, ...]
    unread_nodes: int
    longest_path: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain data, by the names of the fields; ``longest_path`` names nodes from input to output."""
        return plain(vars(self))


def statistics_of(model: ir.Model) -> GraphStatistics:
    """Look at the graph once; the order of its nodes does not matter."""
    graph = model.graph
    nodes = [node for node in graph if not is_constant_node(node)]
    reads = {node: _reads(node) for node in nodes}
    readers = Counter(value for values in reads.values() for value in values)
    before, level = _levels(reads)
    last = max(level, key=lambda node: level[node], default=None)
    path: list[str] = []
    while last is not None:
        path.append(name_of(last))
        last = before[last]
    kept = set(graph.outputs)
    return GraphStatistics(
        nodes=len(nodes),
        edges=readers.total(),
        depth=len(path),
        width=max(Counter(level.values()).values(), default=0),
        forks=sum(1 for count in readers.values() if count > 1),
        joins=sum(1 for values in reads.values() if len(values) > 1),
        parts=_parts(reads),
        widest_fork=max(readers.values(), default=0),
        unused_inputs=tuple(v.name or "" for v in graph.inputs if v not in readers and v not in kept and not v.uses()),
        unread_nodes=sum(1 for node in nodes if not any(out in readers or out in kept for out in node.outputs)),
        longest_path=tuple(reversed(path)),
    )


def _reads(node: ir.Node) -> list[ir.Value]:
    """List the activations that a node reads, also those that its bodies take from outside, each once."""
    found = dict.fromkeys(value for value in used_values(node) if value is not None)
    return [value for value in found if not _is_constant(value)]


def _is_constant(value: ir.Value) -> bool:
    producer = value.producer()
    if producer is None:
        return value.is_initializer()
    return is_constant_node(producer)


def _levels(
    reads: dict[ir.Node, list[ir.Value]],
) -> tuple[dict[ir.Node, ir.Node | None], dict[ir.Node, int]]:
    """Find the distance of nodes from the inputs, and for each the node before it on the longest way there."""
    after: dict[ir.Node, list[ir.Node]] = {}
    waiting: dict[ir.Node, int] = {}
    for node, values in reads.items():
        producers = (value.producer() for value in values)
        sources = [producer for producer in producers if producer is not None and producer in reads]
        waiting[node] = len(sources)
        for source in sources:
            after.setdefault(source, []).append(node)
    level: dict[ir.Node, int] = {}
    before: dict[ir.Node, ir.Node | None] = {}
    ready = deque(node for node, count in waiting.items() if not count)
    level.update(dict.fromkeys(ready, 1))
    before.update(dict.fromkeys(ready))
    while ready:
        node = ready.popleft()
        for reader in after.get(node, ()):
            if level[node] + 1 > level.get(reader, 0):
                level[reader], before[reader] = level[node] + 1, node
            waiting[reader] -= 1
            if not waiting[reader]:
                ready.append(reader)
    return before, level


def _parts(reads: dict[ir.Node, list[ir.Value]]) -> int:
    """Count the pieces of the graph that no value connects."""
    roots: dict[object, object] = {}

    def root(thing: object) -> object:
        while (parent := roots.setdefault(thing, thing)) is not thing:
            roots[thing] = roots[parent]
            thing = parent
        return thing

    for node, values in reads.items():
        for value in values:
            roots[root(value)] = root(node)
        for value in node.outputs:
            roots[root(value)] = root(node)
    return len({root(node) for node in reads})


class TensorsOfType(NamedTuple):
    """Tensors of one element type; ``in_nodes`` of the elements are held by Constant nodes."""

    tensors: int = 0
    elements: int = 0
    bytes: int = 0
    in_nodes: int = 0


def weights_of(model: ir.Model) -> dict[str, TensorsOfType]:
    """Sum up by element type, the largest first."""
    found: dict[str, TensorsOfType] = {}
    for tensor, in_node in _tensors(model):
        name = tensor.dtype.name.lower()
        tensors, elements, nbytes, in_nodes = found.get(name, TensorsOfType())
        size = tensor.size
        found[name] = TensorsOfType(tensors + 1, elements + size, nbytes + tensor.nbytes, in_nodes + size * in_node)
    return dict(sorted(found.items(), key=lambda item: -item[1].bytes))


def _tensors(model: ir.Model) -> Iterator[tuple[ir.TensorProtocol, bool]]:
    for graph in (model.graph, *all_graphs(model.graph)):
        for value in graph.initializers.values():
            if value.const_value is not None:
                yield value.const_value, False
    for node in all_nodes(model.graph):
        if is_constant_node(node):
            tensor = tensor_of_constant_node(node)
            if tensor is not None:
                yield tensor, True


@dataclass(frozen=True)
class Port:
    """An input or output: name, element type and shape as text; an input with a default can be left out."""

    name: str
    dtype: str
    shape: str
    has_default: bool = False

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}{self.shape}" + (" (has a default)" if self.has_default else "")


@dataclass(frozen=True)
class Summary:
    """What ``inspect`` shows."""

    name: str
    ir_version: int
    producer: str
    opsets: dict[str, int]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    size: ModelSize
    subgraphs: int
    functions: tuple[str, ...]
    dynamic_dimensions: tuple[str, ...]
    values_without_shape: int
    datatypes: Counter[str]
    repairs: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        data = plain({field.name: getattr(self, field.name) for field in fields(self)})
        return data | data.pop("size") | {"nodes": self.size.nodes}


def summarize(model: ir.Model) -> Summary:
    """Look at a model once and say what is in it."""
    graph = model.graph
    source = origin(model)
    values = list(annotations.values(graph))
    return Summary(
        name=graph.name or "",
        ir_version=model.ir_version,
        producer=" ".join(part for part in (model.producer_name, model.producer_version) if part),
        opsets=dict(graph.opset_imports),
        inputs=tuple(port(value) for value in graph.inputs),
        outputs=tuple(port(value) for value in graph.outputs),
        size=measure(model),
        subgraphs=sum(1 for _ in graph.subgraphs()),
        functions=tuple("::".join(part for part in key if part) for key in model.functions),
        dynamic_dimensions=tuple(dict.fromkeys(_dynamic(graph))),
        values_without_shape=sum(1 for value in values if value.shape is None),
        datatypes=Counter(
            text for value in values if (text := annotations.get(value).get("finn_datatype")) is not None
        ),
        repairs=source.repairs if source is not None else (),
    )


def port(value: ir.Value) -> Port:
    """Describe an input or output."""
    if (maps := map_text(value)) is not None:
        return Port(value.name or "", maps, "", value.is_initializer())
    shape = "[?]" if value.shape is None else "[" + ", ".join(_dim(dim) for dim in value.shape) + "]"
    dtype = value.dtype.name.lower() if value.dtype is not None else "untyped"
    return Port(value.name or "", dtype, shape, value.is_initializer())


def _dim(dim: object) -> str:
    return str(dim) if isinstance(dim, int) else str(getattr(dim, "value", None) or "?")


def _dynamic(graph: ir.Graph) -> list[str]:
    return [
        _dim(dim)
        for value in graph.inputs
        if value.shape is not None
        for dim in value.shape
        if not isinstance(dim, int)
    ]


def dynamic_inputs(graph: ir.Graph) -> dict[str, list[str]]:
    """Map the name of each dynamic dimension, ``?`` if it has none, to the inputs that have it."""
    found: dict[str, dict[str, None]] = {}
    for value in graph.inputs:
        for dim in value.shape or ():
            if not isinstance(dim, int):
                found.setdefault(dim.value or "?", {})[value.name or ""] = None
    return {name: list(inputs) for name, inputs in found.items()}


def require_known(model: ir.Model, sizes: Mapping[str, int]) -> None:
    """Refuse names that no dimension has."""
    known = {
        name
        for value in annotations.values(model.graph)
        for dim in value.shape or ()
        if not isinstance(dim, int)
        for name in (dim.value, *symbols_of(dim))
        if name is not None
    }
    for name in sizes:
        if name not in known:
            hint = did_you_mean(name, known) or (
                f"there are: {', '.join(sorted(known))}" if known else "the model has no dynamic dimensions"
            )
            raise UsageError(f"no dimension is called '{name}'", hint=hint)


def bind(model: ir.Model, sizes: Mapping[str, int]) -> None:
    """Put numbers for names of dimensions, everywhere and in place, also in what is computed from them."""
    if not sizes:
        return
    known: dict[str, int | ir.SymbolicDim] = {}
    for value in annotations.values(model.graph):
        if value.shape is None or value.shape.is_static():
            continue
        bound = [dim if isinstance(dim, int) else _bound(dim, sizes, known) for dim in value.shape]
        value.shape = ir.Shape(bound, denotations=[value.shape.get_denotation(i) for i in range(len(bound))])


def _bound(
    dim: ir.SymbolicDim, sizes: Mapping[str, int], known: dict[str, int | ir.SymbolicDim]
) -> int | ir.SymbolicDim:
    text = dim.value
    if text is None:
        return dim
    if text not in known:
        known[text] = size_of(dim, sizes)
    return known[text]
