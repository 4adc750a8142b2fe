"""Remove the functions that define custom operators."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.walk import all_nodes
from onnx_passes.legacy.operators import adopt
from onnx_passes.ops.functions import MARK
from onnx_passes.passes.qonnx.dialect import scopes
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass


@passes.verify.equality
@passes.register(tags=("qonnx", "functions"))
class EjectOps(EditorPass):
    """Remove the functions that inject-ops or version 0.4 added for custom operators.

    Rewrites: nodes with an ``overload`` made by inject-ops → the same nodes without it, and no function;
              ``onnx_passes.ops::Quant``, ``MultiThreshold`` and ``LayoutConverter``, as 0.4 saves them → the operators
              that are defined here, without the uncalled functions of that domain.
    Refuses:  all other functions, which stay.
    Exactness: bit-exact.
    """

    preserves = ("remove-unused", "shape-inference", "topological-sort", "unique-names", "import-qonnx")

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Remove the functions in place."""
        eject(model, editor)
        if not editor.stopped:
            adopt(model, editor)


def eject(model: ir.Model, editor: Editor) -> None:
    """Remove all functions that inject-ops made from definitions."""
    injected = {key for key, function in model.functions.items() if MARK in function.metadata_props}
    for scope in scopes(model) if injected else ():
        for node in all_nodes(scope):
            if node.op_identifier() in injected and not editor.update("call of an operator", node, overload=""):
                return
    if injected:
        editor.change("functions of operators", (), lambda: list(map(model.functions.pop, injected)))
