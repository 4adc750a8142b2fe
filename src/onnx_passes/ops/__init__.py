"""Operators of quantized networks: one definition each, from which execution, inference and documentation come."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx_ir as ir

DOMAIN = "onnx_passes"
"""The domain of operators of our own."""


def inject_custom_ops(model: ir.Model) -> ir.Model:
    """Return a copy of a model with functions for its custom operators, so that stock ONNX Runtime runs it.

    No pass needs them: verification, folding and ``run_model`` execute custom operators as they are. So a model with
    operators that cannot be written as functions, as their shapes are not known, is returned as it is.
    """
    from onnx_passes.core.base import Context
    from onnx_passes.core.build import collect
    from onnx_passes.core.errors import ModelError
    from onnx_passes.graph.copy import copy_model

    injected = copy_model(model)
    with contextlib.suppress(ModelError):
        collect("inject-ops")[0].run(injected, Context())
    return injected
