"""Make shapes constant that are known before the model runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.options import option
from onnx_passes.core.walk import all_nodes
from onnx_passes.graph.constants import is_constant
from onnx_passes.graph.extents import Element, divide, multiply
from onnx_passes.passes.fold.vectors import Vector, Vectors
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass

_COPY, _INFER = 0, -1
_KNOWN, _TARGET = "shape known before the run", "constant shape of a Reshape or Expand"
_SAME = "sizes that are equal"


@passes.verify.equality
@passes.register(tags=("fold", "constants", "shapes"))
class FoldShapes(EditorPass):
    """Fold computations on shapes into constants, where the shapes are known.

    Rewrites: ``Shape (x)`` with ``x: float[2, 3]`` → ``[2, 3]``; ``Gather (Shape (x), 1)`` with ``x: float[N, 3]`` →
              ``3``; the same through Slice, Concat, arithmetic, comparisons and so on, in which named dimensions are
              followed; ``Reshape (x, [N, -1, 64])`` → ``Reshape (x, [0, -1, 64])``; ``Expand (x, [N, 4])`` →
              ``Expand (x, [1, 4])``; ``Gather (Shape (z), 0)`` with ``z: float[N]`` → ``Gather (Shape (x), 0)`` that is
              there before it, with ``x: float[N, 3]``.
    Refuses:  dimensions that are not numbers, but where a Reshape can copy or infer them; to let a Reshape infer a
              dimension next to one that might be 0, unless ``nonempty``; function bodies.
    Exactness: bit-exact, if dimensions of the same name are equal.
    """

    needs = ("shape-inference",)
    preserves = ("checker", "shape-inference", "topological-sort", "unique-names")

    nonempty: bool = option(False, "assume that no dimension is ever 0, which lets more shapes be constant")

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Follow shapes through the graph and its subgraphs."""
        fold_shapes(editor, nonempty=self.nonempty)


def fold_shapes(editor: Editor, *, nonempty: bool) -> None:
    """Fold in a graph and its subgraphs."""
    vectors = Vectors()
    vectors.run(editor.graph)
    nodes = list(all_nodes(editor.graph))
    known = _known(nodes, vectors, editor)
    for node, arrays in known.items():
        # What only other such nodes read goes with them.
        if any(value.is_graph_output() or any(user not in known for user, _ in value.uses()) for value in arrays):
            editor.store(_KNOWN, node, {value: ir.Tensor(array) for value, array in arrays.items()})
    for node in nodes:
        if node.op_type in ("Expand", "Reshape") and node.domain == "" and node.graph is not None:
            _simplify_target(node, vectors, editor, nonempty=nonempty)
    _share_sizes(editor, vectors)


def _share_sizes(editor: Editor, vectors: Vectors) -> None:
    """Compute sizes once that are known to be equal, although not as numbers."""
    first: dict[tuple[Vector, ir.DataType | None], ir.Node] = {}
    for node in list(editor.graph):
        value = node.outputs[0] if len(node.outputs) == 1 else None
        vector = None if value is None else vectors.known.get(value)
        if value is None or vector is None or None in vector.elements or node.graph is None or not value.uses():
            continue
        before = first.setdefault((vector, value.dtype), node)
        if before.graph is None:
            # It went with the last that read it.
            first[vector, value.dtype] = node
        elif before is not node and not value.is_graph_output() and not _are_alike(before, node):
            with editor.rewrite(_SAME, node) as r:
                r.replace(value, before.outputs[0])


def _are_alike(before: ir.Node, node: ir.Node) -> bool:
    """Return whether a node equals another one, which is left to eliminate-common-subexpression."""
    return before.op_identifier() == node.op_identifier() and before.inputs == node.inputs


def _known(nodes: Sequence[ir.Node], vectors: Vectors, editor: Editor) -> dict[ir.Node, dict[ir.Value, np.ndarray]]:
    """Return the nodes of which all that is read is known, with the contents of their results."""
    known: dict[ir.Node, dict[ir.Value, np.ndarray]] = {}
    for node in nodes:
        if node.op_type == "Constant" or not any(vectors.known.get(value) for value in node.outputs):
            continue
        read = [value for value in node.outputs if value.uses() or value.is_graph_output()]
        arrays = {value: array for value in read if (array := vectors.array(value)) is not None}
        if len(arrays) == len(read):
            known[node] = arrays
        else:
            unknown = next(value for value in read if value not in arrays)
            editor.refuse(_KNOWN, "it depends on dynamic dimensions", node, at=unknown)
    return known


def _simplify_target(node: ir.Node, vectors: Vectors, editor: Editor, *, nonempty: bool) -> None:
    """Give a Reshape or Expand a constant shape."""
    source = node.inputs[1] if len(node.inputs) > 1 else None
    if source is None or is_constant(source) or source.producer() is None:
        return
    target = (
        _expand_target(node, vectors) if node.op_type == "Expand" else _reshape_target(node, vectors, nonempty=nonempty)
    )
    if target is None:
        editor.refuse(_TARGET, "its target cannot be expressed as a constant", node, at=source)
        return
    with editor.rewrite(_TARGET, node) as r:
        shape = r.op.initializer(np.array(target, np.int64), name=f"{node.outputs[0].name}/shape")
        result = r.op.like(node, [node.inputs[0], shape])
        r.replace(node.outputs[0], result)
    if r.applied and (made := result.producer()) is not None:
        vectors.visit(made)


def _expand_target(node: ir.Node, vectors: Vectors) -> list[int] | None:
    """Return a target of Expand that keeps dimensions of the required size; None if unknown."""
    dims, target = vectors.shape(node.inputs[0]), vectors.get(node.inputs[1])
    if dims is None or target is None:
        return None
    result: list[int] = []
    for back, wanted in enumerate(reversed(target.elements), start=1):
        if isinstance(wanted, int):
            result.append(wanted)
        elif wanted is not None and back <= len(dims) and dims[-back] == wanted:
            result.append(1)
        else:
            return None
    return result[::-1]


def _reshape_target(node: ir.Node, vectors: Vectors, *, nonempty: bool) -> list[int] | None:
    """Return a target of Reshape that copies kept dimensions, and infers one; None if impossible."""
    wanted = _wanted_dimensions(node, vectors)
    if wanted is None:
        return None
    dims = vectors.shape(node.inputs[0]) or ()
    may_copy = not node.attributes.get_int("allowzero", 0)
    result: list[int | None] = []
    for axis, element in enumerate(wanted):
        if isinstance(element, int):
            result.append(element)
        elif may_copy and element is not None and axis < len(dims) and dims[axis] == element:
            result.append(_COPY)
        else:
            result.append(None)
    unknown = result.count(None)
    if unknown and (unknown > 1 or _INFER in result or not _may_infer(result, nonempty=nonempty)):
        return None
    return [_INFER if element is None else element for element in result]


def _may_infer(target: Sequence[int | None], *, nonempty: bool) -> bool:
    """Return whether the unknown dimension follows from the others, none of which may be 0."""
    least = _COPY if nonempty else 1
    return all(element is None or element >= least for element in target)


def _wanted_dimensions(node: ir.Node, vectors: Vectors) -> list[Element] | None:
    """Combine the known dimensions of the target and of the result."""
    asked, dims = vectors.get(node.inputs[1]), vectors.shape(node.outputs[0])
    if asked is None:
        return None if dims is None else list(dims)
    elements = _with_inferred(asked.elements, vectors.shape(node.inputs[0]))
    if dims is None or len(dims) != len(elements):
        return elements
    return [
        result if isinstance(result, int) and result > 0 else element
        for element, result in zip(elements, dims, strict=True)
    ]


def _with_inferred(asked: Sequence[Element], dims: Sequence[Element] | None) -> list[Element]:
    """Work out the dimension that a Reshape would infer, if it is a number."""
    elements = list(asked)
    if dims is not None and elements.count(_INFER) == 1 and _COPY not in elements:
        others = reduce(multiply, (element for element in elements if element != _INFER), 1)
        inferred = divide(reduce(multiply, dims, 1), others)
        if isinstance(inferred, int) and inferred > 0:
            elements[elements.index(_INFER)] = inferred
    return elements
