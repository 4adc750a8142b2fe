"""Models assembled from copies of nodes, which do not change with the originals, and their parts for each channel."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, cast

import numpy as np
import onnx_ir as ir

from onnx_passes.core.walk import all_graphs, all_nodes, holds_graphs, nested_graphs
from onnx_passes.graph.constants import constant_tensor
from onnx_passes.graph.copy import copy_node
from onnx_passes.graph.edits import carry_annotations, copy_type
from onnx_passes.graph.hashing.fingerprint import used_functions
from onnx_passes.graph.uses import is_updated

Shapes = Literal["declared", "ranks", "none"] | int
"""What is declared: the shapes of the original model, their ranks alone, nothing, or one rank for all."""
DtypeOf = Callable[[ir.Value], ir.DataType | None]


class OutsideError(Exception):
    """A required value is computed outside of the copied nodes."""

    def __init__(self, value: ir.Value) -> None:
        super().__init__(f"'{value.name}' is computed outside of the fragment")
        self.value = value


class Assembly:
    """Copies of nodes and of the constants that they read; ``values`` maps originals to copies.

    Graphs that nodes hold are copied with the values that they capture. With ``keeps_names`` values, nodes, their
    annotations and the defaults of inputs stay what they are, else all names are new. ``dtype_of`` is the element type
    that a value is declared to have, by default its own.
    """

    def __init__(self, *, keeps_names: bool = False, shapes: Shapes = "ranks", dtype_of: DtypeOf | None = None) -> None:
        self.values: dict[ir.Value, ir.Value] = {}
        self.inputs: list[ir.Value] = []
        self.nodes: list[ir.Node] = []
        self._weights: list[ir.Value] = []
        self._keeps_names, self._shapes, self._dtype_of = keeps_names, shapes, dtype_of
        self._names = 0

    def feed(self, value: ir.Value, declared: ir.Value | None = None) -> ir.Value:
        """Add an input that replaces a value, declared as the value is or as another one says."""
        made = ir.Value(name=self._name(value))
        if declared is None:
            self._describe(made, value)
            if self._keeps_names and value.is_initializer():
                made.const_value = value.const_value
                self._weights.append(made)
        else:
            made.type, made.shape = declared.type, declared.shape
        if self._keeps_names:
            carry_annotations(value, made)
        self.values[value] = made
        self.inputs.append(made)
        return made

    def weight(self, tensor: ir.TensorProtocol, value: ir.Value | None = None) -> ir.Value:
        """Add a constant, which replaces a value if one is given."""
        made = ir.Value(name=self._name(value), type=ir.TensorType(tensor.dtype), shape=ir.Shape(tensor.shape.numpy()))
        made.const_value = tensor
        if value is not None:
            self.values[value] = made
            if self._keeps_names:
                carry_annotations(value, made)
        self._weights.append(made)
        return made

    def read(self, value: ir.Value) -> ir.Value:
        """Return the copy of a value or, of a constant, make it. Raises OutsideError."""
        found = self.values.get(value)
        if found is None:
            tensor = constant_tensor(value)
            if tensor is None:
                raise OutsideError(value)
            found = self.weight(tensor, value)
        return found

    def add(self, nodes: Iterable[ir.Node]) -> None:
        """Copy nodes in order, unless they are here. Raises OutsideError."""
        for node in nodes:
            if not all(value in self.values or value.name == "" for value in node.outputs):
                self.copy(node, [self._operand(node, index) for index in range(len(node.inputs))])

    def copy(
        self, node: ir.Node, inputs: Sequence[ir.Value | None], into: dict[ir.Value, ir.Value] | None = None
    ) -> ir.Node:
        """Copy a node onto inputs that are here; its results replace the original ones, unless others do already.

        They do so in another mapping if one is given.
        """
        into = self.values if into is None else into
        attributes = map(self._attribute, node.attributes.values()) if holds_graphs(node) else None
        made = copy_node(node, inputs, attributes, name=node.name if self._keeps_names else None)
        if self._keeps_names:
            made.metadata_props.update(node.metadata_props)
            cast("dict[str, Any]", made.meta).update(cast("dict[str, Any]", node.meta))
            made.doc_string = node.doc_string
        self.nodes.append(made)
        for old, new in zip(node.outputs, made.outputs, strict=True):
            is_known = old in into
            # A result that is fed is not read, but ONNX Runtime wants names of most results.
            new.name = "" if old.name == "" else self._name(None if is_known else old)
            self._describe(new, old)
            if self._keeps_names:
                carry_annotations(old, new)
            into.setdefault(old, new)
        return made

    def computed(self, value: ir.Value) -> ir.Value:
        """Return the copy of a value as the result of a node: ONNX Runtime returns no inputs and no constants."""
        made = self.read(value)
        if made.producer() is not None:
            return made
        identity = ir.node("Identity", [made])
        self.nodes.append(identity)
        identity.outputs[0].name, identity.outputs[0].type = self._name(None), made.type
        identity.outputs[0].shape = None if made.shape is None else made.shape.copy()
        return identity.outputs[0]

    def model(
        self,
        like: ir.Model,
        outputs: Iterable[ir.Value],
        *,
        imports: Mapping[str, int] | None = None,
        name: str = "fragment",
    ) -> ir.Model:
        """Return the copied nodes as a model with operator sets, or other ``imports``, and functions of another one."""
        operators = {node.op_identifier() for node in self.nodes} if like.functions else set[ir.OperatorIdentifier]()
        if like.functions and any(map(holds_graphs, self.nodes)):
            inner = (each for node in self.nodes for graph in nested_graphs(node) for each in all_nodes(graph))
            operators.update(node.op_identifier() for node in inner)
        graph = ir.Graph(
            self.inputs,
            list(outputs),
            nodes=self.nodes,
            initializers=self._weights,
            opset_imports=dict(like.opset_imports if imports is None else imports),
            name=name,
        )
        # Initializers of older models are inputs.
        version = like.ir_version if all(map(ir.Value.is_graph_input, self._weights)) else max(like.ir_version, 4)
        return ir.Model(graph, ir_version=version, functions=used_functions(like, operators))

    def _operand(self, node: ir.Node, index: int) -> ir.Value | None:
        """Return the copy of an input; a constant that ONNX Runtime writes to is read by one node alone."""
        value = node.inputs[index]
        made = None if value is None else self.read(value)
        if made is not None and made.const_value is not None and is_updated(node, index):
            return self.weight(made.const_value)
        return made

    def _attribute(self, attribute: ir.Attr) -> ir.Attr:
        if attribute.is_ref():
            return attribute
        if attribute.type is ir.AttributeType.GRAPH:
            return ir.AttrGraph(attribute.name, self._nested(attribute.as_graph()))
        if attribute.type is ir.AttributeType.GRAPHS:
            return ir.AttrGraphs(attribute.name, [self._nested(graph) for graph in attribute.as_graphs()])
        return attribute

    def _nested(self, graph: ir.Graph) -> ir.Graph:
        """Copy a graph that a node holds, reading copies of outer values."""
        made = graph.clone(allow_outer_scope_values=True)
        graphs = [made, *all_graphs(made)]
        inside = set(graphs)
        for inner in graphs:
            for node in inner:
                for index, value in enumerate(node.inputs):
                    if value is not None and value.graph not in inside:
                        node.replace_input_with(index, self.read(value))
            for index, value in enumerate(inner.outputs):
                if value.graph not in inside:
                    inner.outputs[index] = self.read(value)
        if not self._keeps_names:
            self._rename(graphs)
        return made

    def _rename(self, graphs: Sequence[ir.Graph]) -> None:
        for inner in graphs:
            for value in (*inner.inputs, *inner.initializers.values(), *(v for node in inner for v in node.outputs)):
                if value.name != "":
                    value.name = self._name(None)

    def _describe(self, made: ir.Value, value: ir.Value) -> None:
        if value.type is None or isinstance(value.type, ir.TensorType):
            dtype = value.dtype if self._dtype_of is None else self._dtype_of(value)
            denotation = None if value.type is None else value.type.denotation
            made.type = None if dtype is None else ir.TensorType(dtype, denotation=denotation)
        else:
            made.type = copy_type(value.type)
        shapes = self._shapes
        if isinstance(shapes, int):
            made.shape = ir.Shape([None] * shapes)
        elif value.shape is not None and shapes != "none":
            made.shape = value.shape.copy() if shapes == "declared" else ir.Shape([None] * len(value.shape))

    def _name(self, value: ir.Value | None) -> str:
        if value is not None and self._keeps_names and value.name is not None:
            return value.name
        self._names += 1
        # Names with a slash in front are not those of models.
        return f"/v{self._names}" if self._keeps_names else f"v{self._names}"


class ByChannel(ABC):
    """Functions of single elements, one for each channel; channels are numbered in the order of the ``axes``.

    ``axes`` are those of the tensor that is read, with their sizes, along which constants vary.
    """

    axes: dict[int, int]

    @property
    @abstractmethod
    def rank(self) -> int:
        """Return the number of axes of the tensor that is read."""

    @property
    def channels(self) -> int:
        """Return the number of different functions."""
        return math.prod(self.axes.values())

    @property
    def layout(self) -> tuple[int, ...]:
        """Return the shape of the channels, of the rank of the tensor."""
        return tuple(self.axes.get(axis, 1) for axis in range(self.rank))

    @property
    def free(self) -> int | None:
        """Return an axis along which constants do not vary."""
        return next((axis for axis in range(self.rank) if axis not in self.axes), None)

    def laid(self, points: np.ndarray) -> np.ndarray:
        """Give points of shape ``[channels, n]`` the rank of the tensor, one behind the other along the free axis."""
        assert self.free is not None
        return np.moveaxis(points.reshape(*self.layout, -1), -1, self.free).squeeze(self.free + 1)

    def unlaid(self, array: np.ndarray) -> np.ndarray:
        """Return the elements of a result by channel, in the shape ``[channels, n]``."""
        assert self.free is not None
        return np.moveaxis(np.expand_dims(array, self.free + 1), self.free, -1).reshape(self.channels, -1)
