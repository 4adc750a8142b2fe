"""Merge initializers with identical bits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.options import Size, option
from onnx_passes.core.walk import all_graphs
from onnx_passes.graph import annotations
from onnx_passes.graph.edits import carry_annotations, subgraphs_of
from onnx_passes.graph.hashing.identity import Identities, sample
from onnx_passes.graph.uses import is_overwritten
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass

TensorForm = tuple[ir.DataType, tuple[int, ...]]
Annotation = tuple[tuple[str, str], ...]


@passes.verify.equality
@passes.register(tags=("cleanup", "constants"))
class DeduplicateInitializers(EditorPass):
    """Merge initializers with the same element type, shape and bits.

    Rewrites: ``Add (x, a), Add (y, b)`` → ``Add (x, a), Add (y, a)`` for bit-identical ``a`` and ``b``;
              the initializers of a subgraph also merge with those of the graphs around it.
    Refuses:  ``0.0`` and ``-0.0``; inputs and outputs of a graph; different quantization annotations (no annotation is
              compatible with any); tensors above ``max-size``; names that a subgraph shadows; statistics of
              BatchNormalization in training mode, which ONNX Runtime updates in place.
    Exactness: bit-exact.
    """

    functions = True
    preserves = ("checker", "lift-constants", "remove-unused", "shape-inference", "topological-sort", "unique-names")

    max_size: Size | None = option(None, "leave larger tensors alone, without reading them")

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Merge in the graph with its subgraphs, and in the subgraphs of each function."""
        again = True
        while again:
            merging = _Merging(editor, self.max_size)
            merging.run()
            # Annotations that now refer to the same tensor may have become equal.
            again = merging.redirected > 0 and not editor.stopped


class _Initializers:
    """The initializers of one graph into which others may be merged."""

    def __init__(self) -> None:
        self.by_annotation: dict[tuple[bytes, Annotation], ir.Value] = {}
        self.first: dict[bytes, ir.Value] = {}

    def add(self, content: bytes, annotation: Annotation, value: ir.Value) -> None:
        self.by_annotation[content, annotation] = value
        self.first.setdefault(content, value)

    def find(self, content: bytes, annotation: Annotation) -> ir.Value | None:
        """Return the initializer with this content and a compatible annotation; None if there is none."""
        same = self.by_annotation.get((content, annotation))
        return same or (self.by_annotation.get((content, ())) if annotation else self.first.get(content))

    def annotate(self, content: bytes, annotation: Annotation) -> None:
        """Record that the initializer without annotation has received one."""
        bare = self.by_annotation.pop((content, ()), None)
        if bare is not None:
            self.by_annotation[content, annotation] = bare


class _Merging:
    def __init__(self, editor: Editor, max_size: int | None) -> None:
        scope = editor.graph
        self.editor = editor
        self.max_size = max_size
        graphs = (scope, *all_graphs(scope))
        found = [item for graph in graphs for item in self.candidates(graph)]
        layouts = Counter(layout for _, layout in found)
        # A tensor with a unique type and shape needs no reading, and a sample tells most others apart.
        self.samples = {value: (layout, _sample(value.const_value)) for value, layout in found if layouts[layout] > 1}
        self.alike = Counter(self.samples.values())
        self.contents = Identities()
        self.defined = Counter[str]() if len(graphs) == 1 else Counter(v.name or "" for v in annotations.values(scope))
        self.redirected = 0

    def run(self) -> None:
        """Merge all initializers that can be merged."""
        if any(count > 1 for count in self.alike.values()):
            self.visit(self.editor.graph, [])

    def candidates(self, graph: ir.Graph) -> Iterator[tuple[ir.Value, TensorForm]]:
        for value in graph.initializers.values():
            tensor = value.const_value
            if tensor is None or value.is_graph_input() or value.is_graph_output() or is_overwritten(value):
                continue
            if self.max_size is None or tensor.nbytes <= self.max_size:
                yield value, (tensor.dtype, tuple(tensor.shape.numpy()))

    def visit(self, graph: ir.Graph, outer: list[_Initializers]) -> None:
        here = _Initializers()
        for value in list(graph.initializers.values()):
            taken = self.samples.get(value)
            if taken is None or self.alike[taken] == 1 or value.const_value is None or value.name is None:
                continue
            content = self.contents.tensor(value.const_value)
            annotation = tuple(sorted(annotations.get(value).items()))
            kept = self.find(content, annotation, here, outer)
            if kept is None:
                here.add(content, annotation, value)
            else:
                users = list(dict.fromkeys(value.consumers()))
                merge = partial(self.replace, graph, value, kept)
                self.editor.change(
                    "initializers of the same bits", users, merge, replaced=[(value, kept)], settled=True
                )
        for subgraph in [subgraph for node in graph for subgraph in subgraphs_of(node)]:
            self.visit(subgraph, [*outer, here])

    def find(
        self, content: bytes, annotation: Annotation, here: _Initializers, outer: list[_Initializers]
    ) -> ir.Value | None:
        for kept in (here, *reversed(outer)):
            found = kept.find(content, annotation)
            if found is not None and (kept is here or self.defined[found.name or ""] == 1):
                kept.annotate(content, annotation)
                return found
        return None

    def replace(self, graph: ir.Graph, value: ir.Value, kept: ir.Value) -> None:
        assert value.name is not None
        assert kept.name is not None
        carry_annotations(value, kept)
        value.replace_all_uses_with(kept)
        del graph.initializers[value.name]
        if value.name in self.editor.scope.keep:
            self.redirected += annotations.rename_references(graph, {value.name: kept.name})
            self.editor.scope.forget_references()


def _sample(tensor: ir.TensorProtocol | None) -> bytes:
    try:
        return b"" if tensor is None else sample(tensor)
    except (OSError, ValueError):
        return b""
