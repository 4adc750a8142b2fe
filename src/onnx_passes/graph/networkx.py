"""Convert models to graphs of NetworkX."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import onnx_ir as ir

from onnx_passes.core.errors import ModelError, UsageError
from onnx_passes.core.walk import all_nodes
from onnx_passes.graph.hashing.content import subgraphs
from onnx_passes.graph.load import Source, load
from onnx_passes.graph.tensor_types import datatype_of
from onnx_passes.graph.wording import dim_text

_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


def to_networkx(model: Source | ir.Graph | ir.Function, *, constants: bool = False) -> Any:
    """Return a model, a graph or a function as a ``networkx.MultiDiGraph``.

    Vertices are nodes, inputs and outputs, and with ``constants`` initializers; their keys are their names, with a
    number appended if necessary. They have ``kind`` ("node", "input", "output", "initializer"), ``name``, ``ir`` (the
    object), and ``graph``, their subgraph; nodes have ``op_type``, ``domain`` and ``attributes``. Edges are uses of
    values, with ``value`` (the name), ``output`` and ``input`` (the positions), and ``ir``; edges, inputs and outputs
    have ``dtype``, ``shape`` and ``datatype``. Results of a subgraph lead to the node that holds it. Requires the
    package networkx: ``pip install 'onnx-passes[networkx]'``.
    """
    if isinstance(model, ir.Graph | ir.Function):
        graph = model.graph if isinstance(model, ir.Function) else model
    else:
        graph = load(model).graph
    result = _networkx().MultiDiGraph(name=graph.name or "")
    return _Converter(result, constants=constants).convert(graph)


def onnx_to_nx(model: Source) -> Any:
    """Return a ``networkx.DiGraph`` of the objects of a model: its inputs and outputs, and its nodes.

    An edge has the ``value`` that its source computes and its target reads; nodes of subgraphs are vertices, too.
    """
    loaded = load(model)
    result = _networkx().DiGraph()
    result.add_nodes_from((*loaded.graph.inputs, *loaded.graph.outputs, *all_nodes(loaded.graph)))
    for node in all_nodes(loaded.graph):
        for value in node.inputs:
            source = None if value is None else value.producer() or value
            if source in result:
                result.add_edge(source, node, value=value)
    for value in loaded.graph.outputs:
        producer = value.producer()
        if producer is not None:
            result.add_edge(producer, value, value=value)
    return result


def _networkx() -> Any:
    try:
        return importlib.import_module("networkx")
    except ImportError:
        raise UsageError("this needs the package networkx", hint="pip install 'onnx-passes[networkx]'") from None


class _Converter:
    def __init__(self, result: Any, *, constants: bool) -> None:
        self.result = result
        self.constants = constants
        self._keys: dict[ir.Node | ir.Value, str] = {}

    def convert(self, graph: ir.Graph) -> Any:
        self._nodes(graph, "")
        self._values(graph, "")
        self._edges(graph, None)
        return self.result

    def _nodes(self, graph: ir.Graph, path: str) -> None:
        for node in graph:
            name = node.name or next((value.name for value in node.outputs if value.name), None) or node.op_type
            key = self._vertex(
                node,
                name,
                kind="node",
                op_type=node.op_type,
                domain=node.domain,
                attributes=dict(_plain(node)),
                graph=path,
            )
            for inner, nested in _nested(node, f"{path}/{key}" if path else key):
                self._nodes(inner, nested)

    def _values(self, graph: ir.Graph, path: str) -> None:
        for kind, values in (
            ("input", graph.inputs),
            ("initializer", graph.initializers.values() if self.constants else ()),
        ):
            for value in values:
                if value not in self._keys and not (kind == "input" and self._is_constant(value)):
                    self._vertex(value, value.name or kind, kind=kind, graph=path, **_type(value))
        for node in graph:
            for inner, nested in _nested(node, f"{path}/{self._keys[node]}" if path else self._keys[node]):
                self._values(inner, nested)

    def _is_constant(self, value: ir.Value) -> bool:
        return value.is_initializer() and not self.constants

    def _edges(self, graph: ir.Graph, holder: ir.Node | None) -> None:
        for node in graph:
            for position, value in enumerate(node.inputs):
                if value is not None:
                    self._edge(value, self._keys[node], position)
            for inner, _ in _nested(node, ""):
                self._edges(inner, node)
        for position, value in enumerate(graph.outputs):
            if holder is not None:
                self._edge(value, self._keys[holder], None)
                continue
            key = self._free(value.name or "output")
            self.result.add_node(key, name=value.name or "", ir=value, kind="output", graph="", **_type(value))
            self._edge(value, key, position)

    def _edge(self, value: ir.Value, target: str, position: int | None) -> None:
        source = self._keys.get(value.producer() or value)
        if source is not None:
            positions = {"output": value.index() or 0, "input": position}
            self.result.add_edge(source, target, value=value.name or "", ir=value, **positions, **_type(value))

    def _vertex(self, item: ir.Node | ir.Value, name: str, **attributes: Any) -> str:
        key = self._keys[item] = self._free(name)
        self.result.add_node(key, name=item.name or "", ir=item, **attributes)
        return key

    def _free(self, name: str) -> str:
        key, number = name, 1
        while key in self.result:
            number += 1
            key = f"{name}#{number}"
        return key


def _nested(node: ir.Node, path: str) -> Iterator[tuple[ir.Graph, str]]:
    for name, position, graph in subgraphs(node):
        yield graph, f"{path}/{name}{f'[{position}]' if position else ''}"


def _type(value: ir.Value) -> dict[str, Any]:
    try:
        datatype = datatype_of(value)
    except ModelError:
        datatype = None
    return {
        "dtype": None if value.dtype is None else value.dtype.name.lower(),
        "shape": None if value.shape is None else tuple(d if isinstance(d, int) else dim_text(d) for d in value.shape),
        "datatype": None if datatype is None else str(datatype),
    }


def _plain(node: ir.Node) -> Iterator[tuple[str, Any]]:
    for name, attribute in node.attributes.items():
        if attribute.is_ref():
            yield name, f"@{attribute.ref_attr_name}"
        elif attribute.type not in _GRAPHS:
            yield name, attribute.value
