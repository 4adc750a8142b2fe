"""Serialise a model to a proto, with placeholders for weights that are stored elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx
import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.graph.external import initializers, standing_in
from onnx_passes.graph.load import root_cause
from onnx_passes.graph.map_types import put_back

if TYPE_CHECKING:
    from collections.abc import Callable


def serialise(
    model: ir.Model, stand_in: Callable[[ir.Value, ir.TensorProtocol], ir.TensorProtocol], where: str
) -> onnx.ModelProto:
    """Serialise a model with placeholders for its initializers, which are restored in any case."""
    given: dict[ir.Value, ir.TensorProtocol] = {}
    for value in initializers(model):
        if value.const_value is None:
            raise ModelError(f"initializer '{value.name}' has no data", where=where)
        given[value] = stand_in(value, value.const_value)
    try:
        with standing_in(given):
            proto = ir.to_proto(model)
    except ir.serde.SerdeError as error:
        raise ModelError(f"the model cannot be serialised: {root_cause(error)}", where=where) from error
    _drop_repeated_annotations(proto.graph)
    put_back(proto)
    return proto


def _drop_repeated_annotations(graph: onnx.GraphProto) -> None:
    """Keep one annotation for each value: onnx_ir writes two for an initializer that is also an output."""
    seen: set[str] = set()
    for position, annotation in reversed(list(enumerate(graph.quantization_annotation))):
        if annotation.tensor_name in seen:
            del graph.quantization_annotation[position]
        seen.add(annotation.tensor_name)
