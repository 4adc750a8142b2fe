"""Encode nodes directly to bytes, with the fields that an engine needs: much faster than protobuf messages."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import cast

import onnx
import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.core.walk import all_nodes
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant_tensor
from onnx_passes.graph.external import standing_in
from onnx_passes.graph.load import root_cause
from onnx_passes.graph.map_types import described
from onnx_passes.graph.wire import tag, varint

_INPUT, _OUTPUT, _NAME, _OPERATOR, _ATTRIBUTE, _DOMAIN, _OVERLOAD = (tag(number) for number in (1, 2, 3, 4, 5, 7, 8))
_NODE = tag(1)
_MODEL_GRAPH = 7
_ATTRIBUTE_NAME, _STRING, _TENSOR, _GRAPH = tag(1), tag(4), tag(5), tag(6)
_DIMENSION, _ELEMENT_TYPE, _RAW, _TENSOR_NAME = b"\x08", b"\x10", tag(9), tag(8)
_VALUE_NAME, _VALUE_TYPE, _TENSOR_TYPE, _SHAPE, _AXIS = tag(1), tag(2), tag(1), tag(2), tag(1)
_ELEMENT, _NUMBER, _SYMBOL = b"\x08", b"\x08", tag(2)
INITIALIZER, INPUT, OUTPUT, VALUE = (tag(number) for number in (5, 11, 12, 13))
"""Field tags of a graph."""
_FLOAT, _INT, _FLOATS, _INTS, _TYPE = b"\x15", b"\x18", b"\x3d", b"\x40", b"\xa0\x01"
_Kind = ir.AttributeType

Expand = Callable[[ir.Node, Mapping[str, int]], Builder | None]
"""Builds the replacement of a node that an engine does not know, given the operator sets; None to keep the node."""
Written = dict[Hashable, tuple[bytes, Mapping[str, int], Sequence[object]]]
"""Encoded replacements of nodes, by everything they depend on: fields, operator sets, and tensors by ``id``."""
_PLAIN = frozenset({_Kind.FLOAT, _Kind.INT, _Kind.STRING, _Kind.FLOATS, _Kind.INTS, _Kind.STRINGS})


def skeleton(model: ir.Model, *, ir_version: int | None = None, expand: Expand | None = None) -> onnx.ModelProto:
    """Start the message of a model: versions, operator sets, functions, and a graph with only a name."""
    proto = onnx.ModelProto(ir_version=ir_version or model.ir_version)
    proto.graph.name = model.graph.name or "graph"
    for domain, version in model.opset_imports.items():
        proto.opset_import.add(domain=domain, version=version)
    proto.functions.extend(_function(function, expand) for function in model.functions.values())
    return proto


def encode(
    proto: onnx.ModelProto,
    nodes: Iterable[ir.Node],
    expand: Expand | None = None,
    *,
    also: bytes = b"",
    written: Written | None = None,
) -> bytes:
    """Encode a message with nodes appended to its graph; the message loses its graph.

    With ``expand``, nodes are encoded as their replacements, whose operator sets are imported; ``also`` are further
    encoded fields of the graph. Nodes in ``written`` are not expanded again.
    """
    encoder = Encoder(expand, {item.domain: item.version for item in proto.opset_import}, written)
    body = proto.graph.SerializeToString() + also + encoder.nodes(nodes)
    for domain, version in encoder.added.items():
        proto.opset_import.add(domain=domain, version=version)
    proto.ClearField("graph")
    return b"".join((proto.SerializeToString(), tag(_MODEL_GRAPH), varint(len(body)), body))


def _function(function: ir.Function, expand: Expand | None) -> onnx.FunctionProto:
    """Encode a function; if a node of it is expanded, as nodes of a graph."""
    proto = ir.serde.serialize_function(function)
    if expand is not None and any(node.domain for node in all_nodes(function)):
        encoder = Encoder(expand, function.opset_imports)
        nodes = onnx.GraphProto.FromString(encoder.nodes(function))
        proto.ClearField("node")
        proto.node.extend(nodes.node)
        for domain, version in encoder.added.items():
            proto.opset_import.add(domain=domain, version=version)
    return proto


class Encoder:
    """Encodes nodes as fields of a graph.

    ``added`` are the operator sets that expanded nodes need in addition.
    """

    def __init__(
        self,
        expand: Expand | None = None,
        opset_imports: Mapping[str, int] | None = None,
        written: Written | None = None,
    ) -> None:
        self.added: dict[str, int] = {}
        self._expand = expand
        self._imports = opset_imports or {}
        self._versions = tuple(sorted(self._imports.items()))
        self._written = {} if written is None else written

    def nodes(self, nodes: Iterable[ir.Node]) -> bytes:
        """Encode nodes in their order, without documentation and metadata."""
        expand = self._expand
        try:
            if expand is None:
                return b"".join(_field(_NODE, self._node(node)) for node in nodes)
            return b"".join(self._expanded(node, expand) for node in nodes)
        except ir.serde.SerdeError as error:
            raise ModelError(f"the model cannot be serialised: {root_cause(error)}") from error

    def _expanded(self, node: ir.Node, expand: Expand) -> bytes:
        if not node.domain:
            return _field(_NODE, self._node(node))
        tensors = [constant_tensor(value) for value in node.inputs]
        key = self._key(node, tensors)
        known = self._written.get(key) if key is not None else None
        if known is None:
            built = expand(node, self._imports)
            if built is None:
                return _field(_NODE, self._node(node))
            try:
                added = {domain: version or 1 for domain, version in built.opsets.items()}
                known = b"".join(_field(_NODE, self._node(inner)) for inner in built.nodes), added, tensors
            finally:
                built.discard()
            if key is not None:
                self._written[key] = known
        self.added.update((domain, version) for domain, version in known[1].items() if domain not in self._imports)
        return known[0]

    def _key(self, node: ir.Node, tensors: Sequence[ir.TensorProtocol | None]) -> Hashable | None:
        """Return the key of everything that determines the expansion of a node; None if that is too large."""
        if any(attribute.type not in _PLAIN or attribute.is_ref() for attribute in node.attributes.values()):
            return None
        # Text, because 0.0 and -0.0 compare equal.
        attributes = tuple((name, repr(attribute.value)) for name, attribute in node.attributes.items())
        values = tuple(
            None if value is None else (value.name, value.dtype, None if value.shape is None else value.shape.dims)
            for value in (*node.inputs, *node.outputs)
        )
        return self._versions, node.op_identifier(), attributes, values, tuple(map(id, tensors))

    def _node(self, node: ir.Node) -> bytes:
        parts: list[bytes] = []
        for value in node.inputs:
            parts += (_INPUT, _sized("" if value is None else value.name or ""))
        for value in node.outputs:
            parts += (_OUTPUT, _sized(value.name or ""))
        if node.name:
            parts += (_NAME, _sized(node.name))
        parts += (_OPERATOR, _sized(node.op_type))
        if node.domain:
            parts += (_DOMAIN, _sized(node.domain))
        if node.overload:
            parts += (_OVERLOAD, _sized(node.overload))
        for attribute in node.attributes.values():
            parts.append(_field(_ATTRIBUTE, self._attribute(attribute)))
        return b"".join(parts)

    def _attribute(self, attribute: ir.Attr) -> bytes:
        kind, value = attribute.type, attribute.value
        if attribute.is_ref():
            return ir.serde.serialize_reference_attribute(attribute).SerializeToString()
        if kind is _Kind.INT:
            body = _INT + _signed(value)
        elif kind is _Kind.INTS:
            body = b"".join(_INTS + _signed(item) for item in value)
        elif kind is _Kind.FLOAT:
            body = _FLOAT + struct.pack("<f", value)
        elif kind is _Kind.FLOATS:
            body = b"".join(_FLOATS + struct.pack("<f", item) for item in value)
        elif kind is _Kind.STRING and isinstance(value, str):
            body = _STRING + _sized(value)
        elif kind is _Kind.TENSOR and type(value) is ir.Tensor and value.dtype is not ir.DataType.STRING:
            # `as_tensor` checks every member of the protocol each time.
            body = _field(_TENSOR, _tensor(cast("ir.TensorProtocol", value)))
        elif kind is _Kind.GRAPH and self._expand is not None:
            graph = self._graph(attribute.as_graph())
            body = _GRAPH + varint(len(graph)) + graph
        else:
            return _as_message(attribute)
        return _ATTRIBUTE_NAME + _sized(attribute.name) + body + _TYPE + varint(kind.value)

    def _graph(self, graph: ir.Graph) -> bytes:
        """Encode the graph of an attribute, whose nodes may be expanded, too."""
        with _weights_at_hand([graph]):
            proto = onnx.GraphProto(name=graph.name or "graph")
            proto.input.extend(map(described, graph.inputs))
            proto.output.extend(map(described, graph.outputs))
            for value in graph.initializers.values():
                if value.const_value is not None:
                    tensor = ir.serde.serialize_tensor(value.const_value)
                    tensor.name = value.name or ""
                    proto.initializer.append(tensor)
            return self.nodes(graph) + proto.SerializeToString()


class ValueEncoder:
    """Encodes names, types and shapes of values, and small initializers, as fields of a graph; each type only once."""

    def __init__(self) -> None:
        self._types: dict[tuple[object, ...], bytes] = {}

    def value(self, field: bytes, value: ir.Value) -> bytes:
        """Encode a value, without documentation and metadata."""
        if type(value.type) is not ir.TensorType:
            return _field(field, described(value).SerializeToString())
        return _field(field, _text(_VALUE_NAME, value.name or "") + self._type(value.type.dtype, value.shape))

    def typed(self, field: bytes, name: str, tensor: ir.TensorProtocol) -> bytes:
        """Encode a value of the type and shape of a tensor."""
        return _field(field, _text(_VALUE_NAME, name) + self._type(tensor.dtype, tensor.shape))

    def initializer(self, name: str, tensor: ir.TensorProtocol) -> bytes:
        """Encode an initializer with its data."""
        if _is_array(tensor):
            return _field(INITIALIZER, _tensor(tensor) + _text(_TENSOR_NAME, name))
        stored = ir.serde.serialize_tensor(tensor)
        stored.name = name
        return _field(INITIALIZER, stored.SerializeToString())

    def _type(self, dtype: ir.DataType, shape: ir.Shape | ir.ShapeProtocol | None) -> bytes:
        dims = None if shape is None else tuple(dim if isinstance(dim, int) else dim.value for dim in shape)
        found = self._types.get((dtype, dims))
        if found is None:
            body = _ELEMENT + varint(dtype.value)
            if dims is not None:
                body += _field(_SHAPE, b"".join(_field(_AXIS, _axis(dim)) for dim in dims))
            found = self._types[dtype, dims] = _field(_VALUE_TYPE, _field(_TENSOR_TYPE, body))
        return found


def _is_array(tensor: ir.TensorProtocol) -> bool:
    return type(tensor) is ir.Tensor and tensor.dtype is not ir.DataType.STRING


def _axis(dim: int | str | None) -> bytes:
    if dim is None:
        return b""
    return _NUMBER + _signed(dim) if isinstance(dim, int) else _text(_SYMBOL, dim)


def _text(field: bytes, text: str) -> bytes:
    return field + _sized(text)


@functools.lru_cache(maxsize=1 << 14)
def _sized(text: str) -> bytes:
    """Encode a text with its length, cached because names recur in every consumer and every encoding."""
    encoded = text.encode()
    return varint(len(encoded)) + encoded


def _field(field: bytes, body: bytes) -> bytes:
    return field + varint(len(body)) + body


def _tensor(tensor: ir.TensorProtocol) -> bytes:
    dimensions = b"".join(_DIMENSION + varint(size) for size in tensor.shape.numpy())
    raw = tensor.tobytes()
    return dimensions + _ELEMENT_TYPE + varint(tensor.dtype.value) + _RAW + varint(len(raw)) + raw


def _signed(value: int) -> bytes:
    return varint(value & 0xFFFF_FFFF_FFFF_FFFF)


def _as_message(attribute: ir.Attr) -> bytes:
    """Encode tensors and graphs through a message; weights in files are included."""
    if attribute.type is _Kind.GRAPH:
        graphs = [attribute.as_graph()]
    else:
        graphs = list(attribute.as_graphs()) if attribute.type is _Kind.GRAPHS else []
    with _weights_at_hand(graphs):
        return ir.serde.serialize_attribute(attribute).SerializeToString()


def _weights_at_hand(graphs: list[ir.Graph]) -> AbstractContextManager[None]:
    """Hold weights from files in memory within a block."""
    weights: dict[ir.Value, ir.TensorProtocol] = {
        value: ir.Tensor(value.const_value.numpy(), value.const_value.dtype)
        for graph in graphs
        for holder in (graph, *graph.subgraphs())
        for value in holder.initializers.values()
        if isinstance(value.const_value, ir.ExternalTensor)
    }
    return standing_in(weights)
