"""Keep nodes as they are."""

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
    """Keep nodes as they are: no pass that follows rewrites them; without nodes, none is kept any more.

    Rewrites: ``keep-nodes{nodes=[conv1*, Softmax]}`` writes the names of all nodes down in the model whose name, result
              or operator fits (``onnx_passes.keep``); every rewrite that takes one of them is refused with that reason.
    Refuses:  patterns that fit no node. Nodes that nothing uses are removed in spite of it, and what a kept node reads
              may be computed in another way.
    Exactness: annotates only.
    """

    needs = ("unique-names",)

    nodes: tuple[str, ...] = option((), "names of nodes, of their results, or operators; * and ? stand for anything")

    def call(self, model: ir.Model) -> PassResult:
        """Run without a manager."""
        return self.run(model, Context())

    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Write down which nodes are kept."""
        kept = chosen(model, self.nodes) if self.nodes else None
        if kept is not None:
            some = ", ".join(sorted(kept)[:_SHOWN])
            context.note(f"kept as they are: {count(len(kept), 'node')} ({some}{', …' if len(kept) > _SHOWN else ''})")
        return PassResult(model, write_names(model, KEPT, kept))
