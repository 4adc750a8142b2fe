"""The shapes that onnx gives the results of one node, asked where a declaration and our inference contradict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import onnx_ir as ir

from onnx_passes.core.walk import holds_graphs
from onnx_passes.graph.constants import constant_tensor
from onnx_passes.graph.map_types import holds_map
from onnx_passes.graph.schemas import schema_of

if TYPE_CHECKING:
    import onnx


def shapes_by_onnx(node: ir.Node, opsets: Mapping[str, int]) -> dict[ir.Value, ir.Shape]:
    """Return the shapes of results by the inference of onnx, as far as it knows them."""
    import onnx

    version = opsets.get(node.domain)
    schema = None if version is None or holds_graphs(node) else schema_of(node.domain, node.op_type, version)
    given = [value for value in node.inputs if value is not None and value.name]
    if schema is None or any(value.type is None for value in given):
        return {}
    types = {str(value.name): ir.to_proto(value).type for value in given}
    tensors = {str(value.name): constant_tensor(value) for value in given}
    data = {name: ir.to_proto(tensor) for name, tensor in tensors.items() if tensor is not None and tensor.size <= _FEW}
    imports = [onnx.helper.make_opsetid(domain, number) for domain, number in opsets.items()]
    try:
        found = onnx.shape_inference.infer_node_outputs(schema, ir.to_proto(node), types, data, None, imports)
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError):
        return {}
    shapes = {output: _shape(found.get(str(output.name))) for output in node.outputs}
    return {output: shape for output, shape in shapes.items() if shape is not None}


_FEW = 64
"""Constants of up to so many elements may be sizes."""


def _shape(proto: onnx.TypeProto | None) -> ir.Shape | None:
    return None if proto is None or holds_map(proto) else ir.serde.deserialize_type_proto_for_shape(proto)  # pyright: ignore[reportArgumentType]
