"""Copies of models that share nothing but tensors, and copies of nodes with other inputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx_ir as ir

from onnx_passes.core.collector import paused_collector
from onnx_passes.graph.edits import copy_type
from onnx_passes.graph.origin import origin, set_origin


def copy_model(model: ir.Model) -> ir.Model:
    """Copy a model, even if its nodes are not sorted; its origin is kept.

    A clone of onnx_ir shares types with the original, so that setting a dtype would change both.
    """
    with paused_collector():
        copied = _copy(model)
    source = origin(model)
    if source is not None:
        set_origin(copied, source)
    return copied


def copy_node(
    node: ir.Node,
    inputs: Sequence[ir.Value | None],
    attributes: Iterable[ir.Attr] | None = None,
    *,
    name: str | None = None,
) -> ir.Node:
    """Copy a node with other inputs, and other attributes if given; outputs have neither names nor types yet."""
    return ir.Node(
        node.domain,
        node.op_type,
        inputs,
        tuple(node.attributes.values() if attributes is None else attributes),
        overload=node.overload,
        num_outputs=len(node.outputs),
        name=name,
    )


def _copy(model: ir.Model) -> ir.Model:
    try:
        copied = model.clone(deep_copy=True)
    except RuntimeError:
        # Cloning requires sorted nodes, parsing a proto does not.
        copied = ir.from_proto(ir.to_proto(model))
    for graph in copied.graphs():
        for value in (*graph.inputs, *graph.initializers.values()):
            _own_type(value)
        for node in graph:
            for value in node.outputs:
                _own_type(value)
    return copied


def _own_type(value: ir.Value) -> None:
    if value.type is not None:
        value.type = copy_type(value.type)
