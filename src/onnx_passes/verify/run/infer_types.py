"""Types and shapes inside a model, as far as onnx infers them, for those who need no more."""

from __future__ import annotations

import logging

import onnx_ir as ir

_LOGGER = "onnx_ir.passes.common.shape_inference"


def infer_types(model: ir.Model) -> None:
    """Let onnx infer types and shapes in place; what it cannot infer stays unknown, and nobody is told."""
    from onnx_ir.passes.common import ShapeInferencePass

    logger = logging.getLogger(_LOGGER)
    was_disabled, logger.disabled = logger.disabled, True
    try:
        ShapeInferencePass()(model)
    except ir.passes.PassError:
        return
    finally:
        logger.disabled = was_disabled
