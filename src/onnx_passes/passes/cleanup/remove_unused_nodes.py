"""Remove nodes and initializers that no output depends on."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import PassResult, Transformation
from onnx_passes.graph.edits import detach, subgraphs_of
from onnx_passes.graph.liveness import Reaching


@passes.verify.equality
@passes.register(tags=("cleanup",))
class RemoveUnusedNodes(Transformation):
    """Remove nodes and initializers that no output depends on, in graphs, subgraphs and functions.

    Rewrites: ``y = Relu(x); z = Abs(x)`` → ``y = Relu(x)``, if ``z`` is neither read nor an output.
    Refuses:  graph inputs and outputs; what the quantization annotation of a remaining value refers to;
              single outputs of a node that is needed for others.
    Exactness: bit-exact.
    """

    preserves = ("checker", "lift-constants", "shape-inference", "topological-sort", "unique-names")

    def call(self, model: ir.Model) -> PassResult:
        """Sweep the graph and every function."""
        modified = False
        for scope in (model.graph, *(function.graph for function in model.functions.values())):
            modified |= _sweep(Reaching(scope, kept=True))
        return PassResult(model, modified)


def _sweep(live: Reaching) -> bool:
    modified = False
    # Inner graphs first, so that nothing in them still reads what is removed from outer ones.
    for graph in reversed(live.graphs):
        dead = [node for node in graph if node not in live.nodes]
        for node in dead:
            for inner in (inner for subgraph in subgraphs_of(node) for inner in subgraph.all_nodes()):
                detach(inner)
        if dead:
            graph.remove(dead, safe=True)
        unused = [name for name, value in graph.initializers.items() if value not in live.values]
        for name in unused:
            del graph.initializers[name]
        modified |= bool(dead or unused)
    return modified
