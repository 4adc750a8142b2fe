"""Sizes of a model: nodes by operator, parameters, bytes."""

from __future__ import annotations

import math
from typing import cast

import onnx_ir as ir

from onnx_passes.core.records import ModelSize
from onnx_passes.core.walk import all_graphs, all_nodes


def count_nodes(model: ir.Model) -> int:
    """Count the nodes of the graph and all its subgraphs, without functions."""
    return len(model.graph) + sum(map(len, all_graphs(model.graph)))


def measure(model: ir.Model) -> ModelSize:
    """Count nodes by operator and the parameters held in initializers, subgraphs included."""
    size = ModelSize(opset=model.opset_imports.get(""))
    for node in all_nodes(model.graph):
        domain = node.domain
        size.operators[f"{domain}::{node.op_type}" if domain else node.op_type] += 1
    for graph in (model.graph, *all_graphs(model.graph)):
        for value in graph.initializers.values():
            tensor = value.const_value
            if tensor is not None:
                size.parameters += count_elements(tensor)
                size.bytes += count_bytes(tensor)
    return size


def count_elements(tensor: ir.TensorProtocol) -> int:
    """Count the elements of a tensor, faster than ``size``, which asks every dimension of the protocol."""
    return math.prod(cast("tuple[int, ...]", tensor.shape.dims))


def count_bytes(tensor: ir.TensorProtocol) -> int:
    """Count the bytes of a tensor, several times as fast as ``nbytes``."""
    if tensor.dtype is ir.DataType.STRING:
        return tensor.nbytes
    return math.ceil(tensor.dtype.bitwidth * count_elements(tensor) / 8)
