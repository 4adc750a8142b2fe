"""Everything visible of a model, as a stream of plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from onnx_passes.graph.hashing.content import Contents, Key, shape_key, type_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ANNOTATIONS = "quant_parameter_tensor_names"


def everything(model: ir.Model | ir.Graph | ir.Function, contents: Contents) -> Iterator[Key]:
    """Yield everything that is written to a file, in its order."""
    snapshot = _Snapshot(contents)
    if isinstance(model, ir.Model):
        yield from snapshot.model(model)
    elif isinstance(model, ir.Function):
        yield from snapshot.function(model)
    else:
        yield from snapshot.graph(model)


class _Snapshot:
    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._numbers: dict[ir.Value, int] = {}

    def model(self, model: ir.Model) -> Iterator[Key]:
        yield (model.ir_version, model.model_version, model.doc_string or "")
        yield (model.producer_name or "", model.producer_version or "", model.domain or "")
        yield (_properties(model), repr(tuple(model.device_configurations)))
        yield from self.graph(model.graph)
        for function in model.functions.values():
            yield from self.function(function)

    def function(self, function: ir.Function) -> Iterator[Key]:
        yield (*function.identifier(), function.doc_string or "")
        for attribute in function.attributes.values():
            yield (*self._contents.attribute(attribute), attribute.doc_string or "")
        yield from self.graph(function.graph)

    def graph(self, graph: ir.Graph) -> Iterator[Key]:
        """Yield a graph; nested graphs follow the node that holds them, in the same stream."""
        yield (graph.name or "", graph.doc_string or "", _properties(graph))
        yield tuple(sorted(graph.opset_imports.items()))
        yield ("inputs", *(self._number(value) for value in graph.inputs))
        yield from map(_value, graph.inputs)
        for value in graph.initializers.values():
            yield (self._number(value), *_value(value), self._tensor(value.const_value, named=False))
        for node in graph:
            yield from self._node(node)
        yield ("outputs", *(self._number(value) for value in graph.outputs))
        yield from map(_value, graph.outputs)

    def _node(self, node: ir.Node) -> Iterator[Key]:
        inputs = tuple(None if value is None else self._number(value) for value in node.inputs)
        names = tuple("" if value is None else value.name for value in node.inputs)
        yield (*node.op_identifier(), node.version, node.name or "", node.doc_string or "", inputs, names)
        yield (_properties(node), *map(_device_configuration, node.device_configurations))
        for value in node.outputs:
            yield (self._number(value), *_value(value))
        for attribute in node.attributes.values():
            yield (*self._contents.attribute(attribute), attribute.doc_string or "")
            if attribute.is_ref():
                continue
            if attribute.type == ir.AttributeType.GRAPH:
                yield from self.graph(attribute.as_graph())
            elif attribute.type == ir.AttributeType.GRAPHS:
                for graph in attribute.as_graphs():
                    yield from self.graph(graph)
            elif attribute.type == ir.AttributeType.TENSOR:
                yield self._tensor(attribute.as_tensor(), named=True)
            elif attribute.type == ir.AttributeType.TENSORS:
                yield tuple(self._tensor(tensor, named=True) for tensor in attribute.as_tensors())

    def _number(self, value: ir.Value) -> int:
        return self._numbers.setdefault(value, len(self._numbers))

    def _tensor(self, tensor: ir.TensorProtocol | None, *, named: bool) -> Key:
        """Return the key of a tensor; an initializer is written with the name of its value."""
        if tensor is None:
            return None
        name = (tensor.name or "") if named else ""
        return (self._contents.tensor(tensor), name, tensor.doc_string or "", _properties(tensor))


def _value(value: ir.Value) -> tuple[Key, ...]:
    annotations = _stored(value, "_metadata").get(ANNOTATIONS)
    return (
        value.name,
        _type(value.type),
        _shape(value.shape),
        value.doc_string or "",
        _properties(value),
        tuple(sorted(annotations.items())) if annotations else (),
    )


def _type(type_: ir.TypeProtocol | None) -> Key:
    if type_ is None:
        return None
    denotations = [type_.denotation or ""]
    while isinstance(type_, (ir.SequenceType, ir.OptionalType)):
        type_ = type_.elem_type
        denotations.append(type_.denotation or "")
    return (type_key(type_), *denotations)


def _shape(shape: ir.Shape | None) -> Key:
    if shape is None:
        return None
    return (shape_key(shape), *(shape.get_denotation(axis) or "" for axis in range(len(shape))))


def _properties(owner: object) -> Key:
    return tuple(sorted(_stored(owner, "_metadata_props").items()))


def _stored(owner: object, slot: str) -> Mapping[str, Any]:
    """Return a lazily created mapping of an object without creating it."""
    return getattr(owner, slot, None) or {}


def _device_configuration(configuration: Any) -> bytes:
    return ir.serde.serialize_node_device_configuration(configuration).SerializeToString(deterministic=True)
