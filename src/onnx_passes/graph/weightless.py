"""Serialise a model without its large weights, for onnx tools that would copy or cannot accept them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

import onnx_ir as ir

from onnx_passes.core.measure import count_bytes
from onnx_passes.core.walk import all_graphs
from onnx_passes.graph.encode import INPUT, OUTPUT, VALUE, ValueEncoder, encode, skeleton
from onnx_passes.graph.external import standing_in, stub
from onnx_passes.graph.map_types import put_back

if TYPE_CHECKING:
    import onnx

_SMALL = 1024
"""Tensors up to this number of bytes are kept: shapes, axes and similar constants determine types and shapes."""
_SMALL_IN_SUBGRAPH = 1 << 20
_PLACE = "weightless"


def weightless(model: ir.Model) -> onnx.ModelProto:
    """Serialise a model with large initializers as inputs; the model itself is unchanged."""
    hidden = {value: stub(tensor, value.name or "", _PLACE, 0) for value, tensor in _big_initializers(model)}
    with standing_in(hidden):
        proto = ir.to_proto(model)
    put_back(proto)
    if hidden:
        _turn_into_inputs(proto.graph)
    return proto


def encode_weightless(model: ir.Model, *, without: Collection[str | None] = ()) -> bytes | None:
    """Encode the result of ``weightless``, but faster, and without some initializers.

    Returns None if a subgraph holds large weights.
    """
    if any(value.graph is not model.graph for value, _ in _big_initializers(model)):
        return None
    given = set(model.graph.inputs)
    encoder, fields = ValueEncoder(), list[bytes]()
    for value in model.graph.initializers.values():
        tensor, name = value.const_value, value.name or ""
        if tensor is None or value.name in without:
            continue
        if count_bytes(tensor) <= _SMALL and not isinstance(tensor, ir.ExternalTensor):
            fields.append(encoder.initializer(name, tensor))
        elif value not in given:
            fields.append(encoder.typed(INPUT, name, tensor))
    fields.extend(encoder.value(INPUT, value) for value in model.graph.inputs)
    fields.extend(encoder.value(OUTPUT, value) for value in model.graph.outputs)
    for node in model.graph:
        for value in node.outputs:
            if value.name and value.type is not None and not value.is_graph_output():
                fields.append(encoder.value(VALUE, value))
    return encode(skeleton(model), model.graph, also=b"".join(fields))


def _big_initializers(model: ir.Model) -> Iterator[tuple[ir.Value, ir.TensorProtocol]]:
    for graph in (model.graph, *all_graphs(model.graph)):
        limit = _SMALL if graph is model.graph else _SMALL_IN_SUBGRAPH
        for value in graph.initializers.values():
            tensor = value.const_value
            if tensor is not None and (count_bytes(tensor) > limit or isinstance(tensor, ir.ExternalTensor)):
                yield value, tensor


def _turn_into_inputs(graph: onnx.GraphProto) -> None:
    import onnx

    inputs = {value.name for value in graph.input}
    for holder in _graphs(graph):
        tensors = list(holder.initializer)
        del holder.initializer[:]
        for tensor in tensors:
            if tensor.data_location != onnx.TensorProto.EXTERNAL:
                holder.initializer.append(tensor)
            elif tensor.name not in inputs:
                inputs.add(tensor.name)
                graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))


def _graphs(graph: onnx.GraphProto) -> Iterable[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _graphs(attribute.g)
            for inner in attribute.graphs:
                yield from _graphs(inner)
