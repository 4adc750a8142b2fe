"""Operators of quantized networks: one definition each, from which execution, inference and documentation come."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx_ir as ir

DOMAIN = "onnx_passes"
"""The domain of operators of our own."""


def inject_custom_ops(model: ir.Model) -> ir.Model:
    """Return a copy of a model with functions for its custom operators, so that stock ONNX Runtime runs it.

    No pass needs them: verification, folding and ``run_model`` execute custom operators as they are.
    """
    from onnx_passes.core.build import collect
    from onnx_passes.core.manager import Manager
    from onnx_passes.core.plan import plan
    from onnx_passes.graph.copy import copy_model

    return Manager().run(plan(collect("inject-ops")), copy_model(model)).model
