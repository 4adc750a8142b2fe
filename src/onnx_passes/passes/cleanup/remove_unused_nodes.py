"""Remove nodes and initializers on which no output depends."""

from __future__ import annotations

from functools import partial

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.edits import is_dead, remove_all
from onnx_passes.graph.liveness import LiveParts
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass


@passes.verify.equality
@passes.register(tags=("cleanup",))
class RemoveUnusedNodes(EditorPass):
    """Remove nodes and initializers on which no output depends, in graphs, subgraphs and functions.

    Rewrites: ``y = Relu(x); z = Abs(x)`` → ``y = Relu(x)``, if ``z`` is neither read nor an output.
    Refuses:  graph inputs and outputs; tensors to which the quantization annotation of a remaining value refers; single
              outputs of a node with other used outputs.
    Exactness: bit-exact.
    """

    functions = True
    preserves = ("checker", "lift-constants", "shape-inference", "topological-sort", "unique-names")

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Remove dead nodes and initializers of one graph or function."""
        live = LiveParts(editor.graph, kept=True)
        # Inner graphs first, so that they no longer read the values removed from outer graphs.
        for graph in reversed(live.graphs):
            dead = [node for node in graph if node not in live.nodes]
            for node in reversed(dead):
                if node.graph is not None and is_dead(node):
                    editor.remove("unused node", [node])
            # Nodes on a cycle, and nodes that only annotations of unused values refer to.
            rest = [node for node in dead if node.graph is not None]
            if rest:
                editor.change("unused nodes", rest, partial(remove_all, graph, rest))
            for name in [name for name, value in graph.initializers.items() if value not in live.values]:
                editor.change("unused initializer", (), partial(graph.initializers.pop, name))
