"""Remove parts of the model on which no output depends."""

from __future__ import annotations

from onnx_passes import passes
from onnx_passes.core.compose import ComposePass


@passes.verify.equality
@passes.register(tags=("cleanup",))
class RemoveUnused(ComposePass):
    """Remove unused nodes, initializers, functions and opset imports.

    Rewrites: ``remove-unused-nodes, remove-unused-functions, remove-unused-opsets``, in this order.
    Refuses:  the cases that its members refuse; inputs and outputs always stay.
    Exactness: bit-exact.
    """

    passes = ("remove-unused-nodes", "remove-unused-functions", "remove-unused-opsets")
