"""Protect nodes from rewrites."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Annotation, Context, PassResult
from onnx_passes.core.options import option
from onnx_passes.graph.wording import count
from onnx_passes.rewrite.choice import KEPT, chosen, write_names

_SHOWN = 5


@passes.verify.equality
@passes.register(tags=("control",))
class KeepNodes(Annotation):
    """Protect nodes: no later pass rewrites them; without ``nodes``, remove all protection.

    Rewrites: ``keep-nodes{nodes=[conv1*, Softmax]}`` writes the names of all nodes whose name, result or operator
              matches into the model (``onnx_passes.keep``); every rewrite that matches one of them is refused with that
              reason.
    Refuses:  patterns that match no node. Unused nodes are removed nevertheless, and the operands of a protected node
              may be computed in another way.
    Exactness: annotates only.
    """

    needs = ("unique-names",)

    nodes: tuple[str, ...] = option((), "names of nodes, of their results, or operators; * and ? are wildcards")

    def call(self, model: ir.Model) -> PassResult:
        """Run without a pass manager."""
        return self.run(model, Context())

    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Write the names of the protected nodes into the model."""
        kept = chosen(model, self.nodes) if self.nodes else None
        if kept is not None:
            some = ", ".join(sorted(kept)[:_SHOWN])
            context.note(f"protected: {count(len(kept), 'node')} ({some}{', …' if len(kept) > _SHOWN else ''})")
        return PassResult(model, write_names(model, KEPT, kept))
