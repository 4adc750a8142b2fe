"""Remove nodes and initializers that no output depends on."""

from __future__ import annotations

from functools import partial

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.edits import is_dead, remove_all
from onnx_passes.graph.liveness import Reaching
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass


@passes.verify.equality
@passes.register(tags=("cleanup",))
class RemoveUnusedNodes(EditorPass):
    """Remove nodes and initializers that no output depends on, in graphs, subgraphs and functions.

    Rewrites: ``y = Relu(x); z = Abs(x)`` → ``y = Relu(x)``, if ``z`` is neither read nor an output.
    Refuses:  graph inputs and outputs; what the quantization annotation of a remaining value refers to;
              single outputs of a node that is needed for others.
    Exactness: bit-exact.
    """

    functions = True
    preserves = ("checker", "lift-constants", "shape-inference", "topological-sort", "unique-names")

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Sweep the graph, or a function."""
        live = Reaching(editor.graph, kept=True)
        # Inner graphs first, so that nothing in them still reads what is removed from outer ones.
        for graph in reversed(live.graphs):
            dead = [node for node in graph if node not in live.nodes]
            for node in reversed(dead):
                if node.graph is not None and is_dead(node):
                    editor.remove("unused node", [node])
            # Those that read each other in a circle, or that only annotations of unused values name.
            rest = [node for node in dead if node.graph is not None]
            if rest:
                editor.change("unused nodes", rest, partial(remove_all, graph, rest))
            for name in [name for name, value in graph.initializers.items() if value not in live.values]:
                editor.change("unused initializer", (), partial(graph.initializers.pop, name))
