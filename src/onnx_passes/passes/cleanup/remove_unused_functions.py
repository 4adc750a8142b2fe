"""Remove functions that nothing calls."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import ALL, PassResult, Transformation
from onnx_passes.core.fingerprint import used_functions
from onnx_passes.core.walk import all_nodes


@passes.verify.equality
@passes.register(tags=("cleanup",))
class RemoveUnusedFunctions(Transformation):
    """Remove model-local functions that the graph calls neither directly nor through others.

    Rewrites: ``f`` without a call → nothing.
    Refuses:  functions that a subgraph or another used function calls.
    Exactness: bit-exact.
    """

    preserves = ALL

    def call(self, model: ir.Model) -> PassResult:
        """Keep what can be reached from the graph."""
        called = used_functions(model, (node.op_identifier() for node in all_nodes(model.graph)))
        used = {function.identifier() for function in called}
        unused = [identifier for identifier in model.functions if identifier not in used]
        for identifier in unused:
            del model.functions[identifier]
        return PassResult(model, modified=bool(unused))
