"""Types and shapes inside a model that is run, and may declare none."""

from __future__ import annotations

import logging

import onnx_ir as ir

from onnx_passes.analysis.shapes.known_shapes import KnownShapes
from onnx_passes.analysis.shapes.symbolic_engine import infer_symbolically
from onnx_passes.core.walk import all_nodes
from onnx_passes.graph.copy import copy_model

_LOGGER = "onnx_ir.passes.common.shape_inference"


def with_shapes(model: ir.Model) -> ir.Model:
    """Return a copy of a model with the shapes inside it, those behind operators for quantized networks included."""
    copied = copy_model(model)
    infer_symbolically(copied, KnownShapes(copied.graph))
    return copied


def infer_types(model: ir.Model) -> None:
    """Let onnx infer types and shapes in place; what it cannot infer stays unknown, and nobody is told.

    Where what a model declares is false, nothing is inferred from it; then what is declared inside of the model counts
    only for values of which nothing is inferred.
    """
    _infer(model, strict=True)
    inside = [value for node in all_nodes(model.graph) for value in node.outputs if not value.is_graph_output()]
    if all(value.dtype is not None for value in inside if value.name):
        return
    declared = [(value, value.type, value.shape) for value in inside]
    for value in inside:
        value.type = value.shape = None
    _infer(model, strict=False)
    for value, type_, shape in declared:
        if value.type is None:
            value.type, value.shape = type_, shape


def _infer(model: ir.Model, *, strict: bool) -> None:
    from onnx_ir.passes.common import ShapeInferencePass

    logger = logging.getLogger(_LOGGER)
    was_disabled, logger.disabled = logger.disabled, True
    try:
        ShapeInferencePass(check_type=strict, strict_mode=strict)(model)
    except ir.passes.PassError:
        return
    finally:
        logger.disabled = was_disabled
