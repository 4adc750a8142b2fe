"""Results that ONNX Runtime leaves undefined, which cannot be compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import onnx
import onnx_ir as ir

from onnx_passes.testing.fuzz.case import Arrays

_FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BFLOAT16})
_PRODUCTS = {"MatMul": _FLOATS, "MatMulInteger": frozenset({ir.DataType.INT8, ir.DataType.UINT8})}
_Tensor = tuple[ir.DataType, list[int | None]]


def reads_unwritten_memory(model: ir.Model, feed: Arrays) -> bool:
    """Return whether a run on these data contains a matrix product over an empty axis.

    ONNX Runtime does not write the result of such a MatMul, which should be zero, but returns uninitialized memory.
    """
    proto = ir.to_proto(model)
    if not any(node.op_type in _PRODUCTS for node in _nodes(proto.graph)):
        return False
    for value in proto.graph.input:
        if value.name in feed:
            shape = list(feed[value.name].shape)
            value.CopyFrom(onnx.helper.make_tensor_value_info(value.name, value.type.tensor_type.elem_type, shape))
    inferred: onnx.ModelProto = cast(Any, onnx.shape_inference.infer_shapes)(proto, data_prop=True)
    return any(_sums_nothing(node, known) for node, known in _with_tensors(inferred.graph, {}))


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node, _ in _with_tensors(graph, {}):
        yield node


def _with_tensors(
    graph: onnx.GraphProto, outer: dict[str, _Tensor]
) -> Iterator[tuple[onnx.NodeProto, dict[str, _Tensor]]]:
    """Yield every node, at any depth, with the tensors that are visible to it."""
    known = dict(outer)
    for value in (*graph.input, *graph.output, *graph.value_info):
        tensor = value.type.tensor_type
        sizes = [dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim]
        known[value.name] = (ir.DataType(tensor.elem_type), sizes)
    for constant in graph.initializer:
        known[constant.name] = (ir.DataType(constant.data_type), list(constant.dims))
    for node in graph.node:
        yield node, known
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _with_tensors(attribute.g, known)


def _sums_nothing(node: onnx.NodeProto, known: dict[str, _Tensor]) -> bool:
    if node.op_type not in _PRODUCTS:
        return False
    nothing: _Tensor = (ir.DataType.UNDEFINED, [])
    (dtype, left), (_, right) = (known.get(name, nothing) for name in node.input[:2])
    return dtype in _PRODUCTS[node.op_type] and (left[-1:] == [0] or (right[-2:-1] or right[-1:]) == [0])
