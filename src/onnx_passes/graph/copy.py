"""Copies of models that share nothing but tensors."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.core.collector import paused_collector
from onnx_passes.graph.edits import copy_type
from onnx_passes.graph.origin import origin, set_origin


def copy_model(model: ir.Model) -> ir.Model:
    """Copy a model, also one whose nodes are out of order; where it came from is remembered.

    A clone of onnx_ir shares types with the original, so that setting a dtype would change both.
    """
    with paused_collector():
        copied = _copy(model)
    source = origin(model)
    if source is not None:
        set_origin(copied, source)
    return copied


def _copy(model: ir.Model) -> ir.Model:
    try:
        copied = model.clone(deep_copy=True)
    except RuntimeError:
        # Cloning follows the order of the nodes; reading a proto does not need one.
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
