"""Remove uncalled functions."""

from __future__ import annotations

from functools import partial

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import ALL
from onnx_passes.core.walk import all_nodes
from onnx_passes.graph.hashing.fingerprint import used_functions
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass


@passes.verify.equality
@passes.register(tags=("cleanup",))
class RemoveUnusedFunctions(EditorPass):
    """Remove model-local functions that the graph calls neither directly nor indirectly.

    Rewrites: ``f`` without a call → nothing.
    Refuses:  functions that a subgraph or another used function calls.
    Exactness: bit-exact.
    """

    preserves = ALL

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Keep the functions that are reachable from the graph."""
        if not model.functions:
            return
        called = used_functions(model, (node.op_identifier() for node in all_nodes(model.graph)))
        used = {function.identifier() for function in called}
        for identifier in [identifier for identifier in model.functions if identifier not in used]:
            editor.change("function without a call", (), partial(model.functions.pop, identifier))
