"""Models of bfloat16, executed in float32 with every result rounded to bfloat16.

ONNX Runtime has few kernels of this type on a CPU, and what rounds after each operation means the same. Weights stay as
they are: a Cast widens each only when the first node that reads it is due.
"""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np
import onnx_ir as ir

from onnx_passes.core.walk import all_graphs
from onnx_passes.graph.builder import type_outputs
from onnx_passes.graph.constants import constant_tensor
from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.schemas import signature
from onnx_passes.verify.run.infer_types import infer_types

_SHORT, _WIDE = ir.DataType.BFLOAT16, ir.DataType.FLOAT
_RESULT, _ROUNDED, _GIVEN = "//unrounded", "//bfloat16", "//wide"
_SMALL = 1024
"""Weights of no more bytes than this are widened beforehand."""


def computes_bfloats(model: ir.Model) -> bool:
    """Tell whether a model has weights, inputs or outputs of bfloat16, or casts to it."""
    graph = model.graph
    known = (*graph.inputs, *graph.outputs, *graph.initializers.values())
    return any(value.dtype is _SHORT for value in known) or any(map(_casts, graph))


def with_wide_bfloats(model: ir.Model) -> ir.Model:
    """Copy a model of bfloat16 and let it compute in float32; any other model is returned as it is."""
    if model.functions or not computes_bfloats(model):
        return model
    copied = copy_model(model)
    if any(value.dtype is None for node in copied.graph for value in node.outputs if value.name):
        infer_types(copied)
    for graph in (copied.graph, *all_graphs(copied.graph)):
        for node in graph:
            if any(value.dtype is None for value in node.outputs):
                version = copied.opset_imports.get(node.domain, 1)
                type_outputs(node, signature(node.domain, node.op_type, version))
        _widen(graph)
    return copied


def _casts(node: ir.Node) -> bool:
    return node.op_type == "Cast" and node.attributes.get_int("to", 0) == _SHORT.value


def _widen(graph: ir.Graph) -> None:
    nodes, widened = list(graph), list[ir.Node]()
    for value in graph.initializers.values():
        if value.dtype is not _SHORT or value.const_value is None:
            continue
        if value.const_value.nbytes <= _SMALL or value.is_graph_input() or value.is_graph_output():
            value.const_value, value.type = _wide(value.const_value), ir.TensorType(_WIDE)
        elif users := list(value.uses()):
            wide = _cast(value, _WIDE, f"{value.name}{_GIVEN}")
            _read_instead(users, wide)
            widened.append(_producer(wide))
    for value in graph.inputs:
        if value.dtype is _SHORT and not value.is_initializer():
            users = list(value.uses())
            wide = _cast(value, _WIDE, f"{value.name}{_GIVEN}")
            _read_instead(users, wide)
            graph.insert_before(nodes[0], _producer(wide))
    for node in nodes:
        _widen_node(graph, node)
    # Of the nodes that are ready, the engine takes the first: no weight is widened as long as another node can run.
    graph.extend(widened)


def _widen_node(graph: ir.Graph, node: ir.Node) -> None:
    held = node.attributes.get("value")
    if held is not None and node.op_type in ("Constant", "ConstantOfShape"):
        tensor = held.as_tensor()
        if tensor.dtype is _SHORT:
            node.attributes.add(ir.AttrTensor("value", _wide(tensor)))
            node.outputs[0].type = ir.TensorType(_WIDE)
            node.outputs[0].const_value = None
        return
    for value in node.outputs:
        if value.dtype is not _SHORT or not value.name or constant_tensor(value) is not None:
            continue
        users, name, casts = list(value.uses()), value.name, _casts(node)
        short = value if casts else _cast(value, _SHORT, name + _ROUNDED)
        wide = _cast(short, _WIDE, name)
        value.name = name + _RESULT
        value.type = ir.TensorType(_SHORT if casts else _WIDE)
        _read_instead(users, wide)
        for index, output in enumerate(graph.outputs):
            if output is value:
                graph.outputs[index] = wide
        graph.insert_after(node, [_producer(one) for one in (short, wide) if one is not value])


def _cast(value: ir.Value, dtype: ir.DataType, name: str) -> ir.Value:
    result = ir.Node("", "Cast", [value], [ir.AttrInt64("to", dtype.value)]).outputs[0]
    result.name, result.type, result.shape = name, ir.TensorType(dtype), value.shape
    return result


def _read_instead(users: Sequence[tuple[ir.Node, int]], value: ir.Value) -> None:
    for user, index in users:
        user.replace_input_with(index, value)


def _producer(value: ir.Value) -> ir.Node:
    producer = value.producer()
    assert producer is not None
    return producer


def _wide(tensor: ir.TensorProtocol) -> ir.Tensor[np.ndarray]:
    return ir.Tensor(tensor.numpy().astype(ml_dtypes.bfloat16).astype(np.float32), name=tensor.name)
