"""Graphs inside a model (branches of If, bodies of Loop and Scan), each on its own with the values that it reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.core.walk import all_nodes, holds_graphs, nested_graphs
from onnx_passes.graph.constants import constant, constant_tensor
from onnx_passes.graph.copy import copy_node
from onnx_passes.verify.run.execute import Sample

Path = tuple[str, ...]
"""Where a graph hangs: the result of the node that holds it and the attribute, from the outermost one on."""

_BODIES = {"If": ("then_branch", "else_branch"), "Loop": ("body",), "Scan": ("body",)}


class NoValueError(Exception):
    """A value that a graph needs is not at hand as an array."""


@dataclass(frozen=True, eq=False)
class Body:
    """A graph that a node holds, and what it reads from around it, by name."""

    path: Path
    node: ir.Node
    graph: ir.Graph

    @property
    def attribute(self) -> str:
        """Return the name of the attribute that holds the graph."""
        return self.path[-1]

    @property
    def text(self) -> str:
        """Say where the graph is, in words for people."""
        return f"{self.attribute} of {self.node.op_type} '{self.path[-2]}'"

    def captured(self) -> dict[str, ir.Value]:
        """Return the values from outside that nodes here or deeper read, without constants."""
        return {name: value for name, value in _outer(self.graph).items() if constant_tensor(value) is None}

    def ran(self, seen: Mapping[str, np.ndarray]) -> bool | None:
        """Tell whether the graph runs where these values occur; nothing if they do not say."""
        if self.node.op_type == "If":
            condition = _known(self.node.inputs[0], seen)
            return None if condition is None else bool(condition.all()) == (self.attribute == "then_branch")
        if self.node.op_type == "Loop":
            try:
                limits = [_required(value, seen) for value in self.node.inputs[:2] if value is not None]
            except NoValueError:
                return None
            return all(bool((limit > 0).all()) for limit in limits)
        length = self._length(seen)
        return None if length is None else length > 0

    def feed(self, seen: Mapping[str, np.ndarray]) -> Sample:
        """Return the inputs of the graph as a model of its own, for its first turn. Raises NoValueError."""
        sample = {name: _required(value, seen) for name, value in self.captured().items()}
        arrays: list[np.ndarray] = []
        if self.node.op_type == "Loop":
            arrays = [np.array(0, np.int64), np.array(True)]
            arrays += [_required(value, seen) for value in self.node.inputs[2:]]
        elif self.node.op_type == "Scan":
            arrays = self._slices(seen)
        formal = [str(value.name) for value in self.graph.inputs]
        return sample | dict(zip(formal, arrays, strict=True))

    def alone(self, model: ir.Model, feed: Sample | None = None) -> ir.Model:
        """Return the graph as a model of its own; inputs are declared as the arrays that they get, if given."""
        captured = self.captured()
        inputs = [_declare(value, feed) for value in (*self.graph.inputs, *captured.values())]
        own = [value for value in self.graph.initializers.values() if not value.is_graph_input()]
        constants = [_weight(value) for name, value in _outer(self.graph).items() if name not in captured]
        weights = [*map(_weight, own), *constants]
        known = {value.name: value for value in (*inputs, *weights)}
        nodes = [_copy(node, known) for node in self.graph]
        graph = ir.Graph(
            inputs,
            [known[value.name] for value in self.graph.outputs],
            nodes=nodes,
            initializers=weights,
            opset_imports=dict(model.opset_imports),
            name=self.attribute,
        )
        return ir.Model(graph, ir_version=max(model.ir_version, 4), functions=list(model.functions.values()))

    def _length(self, seen: Mapping[str, np.ndarray]) -> int | None:
        try:
            return min(array.shape[axis] for array, axis in self._scanned(seen))
        except (NoValueError, IndexError, ValueError):
            return None

    def _scanned(self, seen: Mapping[str, np.ndarray]) -> Iterator[tuple[np.ndarray, int]]:
        count = self.node.attributes.get_int("num_scan_inputs", 0)
        axes = self.node.attributes.get_ints("scan_input_axes", ())
        for number, value in enumerate(self.node.inputs[len(self.node.inputs) - count :]):
            yield _required(value, seen), axes[number] if number < len(axes) else 0

    def _slices(self, seen: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        count = self.node.attributes.get_int("num_scan_inputs", 0)
        states = [_required(value, seen) for value in self.node.inputs[: len(self.node.inputs) - count]]
        try:
            return states + [array.take(0, axis) for array, axis in self._scanned(seen)]
        except IndexError:
            raise NoValueError from None


def bodies(graph: ir.Graph, path: Path = ()) -> Iterator[Body]:
    """Yield the graphs that the nodes of a graph hold, those of If, Loop and Scan."""
    for node in graph:
        if holds_graphs(node) and node.domain == "" and node.op_type in _BODIES:
            result = next((str(value.name) for value in node.outputs if value.name), "")
            for attribute in _BODIES[node.op_type]:
                if attribute in node.attributes and not node.attributes[attribute].is_ref():
                    yield Body((*path, result, attribute), node, node.attributes[attribute].as_graph())


def all_bodies(graph: ir.Graph, path: Path = ()) -> Iterator[Body]:
    """Yield the graphs that nodes hold, at any depth."""
    for body in bodies(graph, path):
        yield body
        yield from all_bodies(body.graph, body.path)


def _outer(graph: ir.Graph) -> dict[str, ir.Value]:
    """Return what a graph reads but does not make, by name."""
    inner: set[ir.Value | None] = {None}
    read: dict[str, ir.Value] = {}
    graphs = [graph, *(nested for node in all_nodes(graph) for nested in nested_graphs(node))]
    for each in graphs:
        inner.update(each.inputs, each.initializers.values())
        inner.update(value for node in each for value in node.outputs)
    for each in graphs:
        used = [value for node in each for value in node.inputs] + list(each.outputs)
        read |= {str(value.name): value for value in used if value is not None and value not in inner}
    return read


def values_read(body: Body) -> Sequence[ir.Value]:
    """List the values around a graph that decide whether it runs and on what."""
    given = [value for value in body.node.inputs if value is not None]
    return [value for value in (*given, *body.captured().values()) if constant_tensor(value) is None]


def _known(value: ir.Value | None, seen: Mapping[str, np.ndarray]) -> np.ndarray | None:
    return (
        None if value is None else constant(value) if constant_tensor(value) is not None else seen.get(str(value.name))
    )


def _required(value: ir.Value | None, seen: Mapping[str, np.ndarray]) -> np.ndarray:
    array = _known(value, seen)
    if array is None:
        raise NoValueError
    return array


def _declare(value: ir.Value, feed: Sample | None) -> ir.Value:
    if feed is None:
        return ir.Value(name=value.name, type=value.type, shape=value.shape)
    given: np.ndarray | list[np.ndarray] = feed[str(value.name)]
    if isinstance(given, list):
        if not given and value.type is None:
            raise NoValueError
        sequence = ir.SequenceType(_tensor_type(given[0])) if given else value.type
        return ir.Value(name=value.name, type=sequence)
    return ir.Value(name=value.name, type=_tensor_type(given))


def _tensor_type(array: np.ndarray) -> ir.TensorType:
    try:
        return ir.TensorType(ir.DataType.from_numpy(array.dtype))
    except TypeError:
        raise NoValueError from None


def _weight(value: ir.Value) -> ir.Value:
    tensor = constant_tensor(value) or value.const_value
    if tensor is None:
        raise NoValueError
    made = ir.Value(name=value.name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(tensor.shape.numpy()))
    made.const_value = tensor
    return made


def _here(value: ir.Value, known: dict[str | None, ir.Value]) -> ir.Value:
    """Return the copy of a value; one that comes later stands before what reads it in no model that runs."""
    if value.name not in known:
        raise NoValueError
    return known[value.name]


def _copy(node: ir.Node, known: dict[str | None, ir.Value]) -> ir.Node:
    """Copy a node with its names; graphs that it holds read by name and stay as they are."""
    copied = copy_node(node, [None if value is None else _here(value, known) for value in node.inputs])
    for old, new in zip(node.outputs, copied.outputs, strict=True):
        new.name, new.type = old.name, old.type
        if old.name:
            known[old.name] = new
    return copied
