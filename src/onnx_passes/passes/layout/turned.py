"""Types, shapes and annotations of transposed values."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.graph.builder import Builder
from onnx_passes.graph.edits import copy_type
from onnx_passes.graph.permutations import Permutation, inverse, moves_only_ones, permutation, permuted
from onnx_passes.graph.shapes import Dim, dims, rank
from onnx_passes.graph.tensor_types import datatype_of, layout_of, set_datatype, set_layout
from onnx_passes.passes.move.forms import shaped


def describe(made: ir.Value, like: ir.Value, perm: Permutation | None = None) -> ir.Value:
    """Give a new value the type, annotations and permuted shape of another."""
    sizes, layout = dims(like), layout_of(like)
    set_datatype(made, datatype_of(like))
    if layout is not None and perm is not None and len(layout) == len(perm):
        set_layout(made, permuted(layout, perm))
    if like.type is not None:
        made.type = copy_type(like.type)
    if sizes is not None:
        made.shape = ir.Shape(sizes if perm is None else permuted(sizes, perm))
    return made


def as_vector(value: ir.Value, perm: Permutation) -> list[Dim] | None:
    """Return the broadcast sizes of a vector along one axis, whose transposition is a reshape; None otherwise."""
    sizes = dims(value)
    if sizes is None or len(sizes) > len(perm):
        return None
    wide: list[Dim] = [*[1] * (len(perm) - len(sizes)), *sizes]
    is_vector = sum(size != 1 for size in wide[1:]) <= 1
    return wide if is_vector and moves_only_ones(perm, wide) else None


def restored(op: Builder, value: ir.Value, perm: Permutation) -> ir.Value:
    """Transpose a value, with its shape."""
    sizes = dims(value)
    return shaped(op.Transpose(value, perm=perm), None if sizes is None else permuted(sizes, perm))


def describe_result(new: ir.Value, old: ir.Value) -> None:
    """Set type and shape of a result, and of the value that it transposes."""
    node = new.producer()
    perm = permutation(node, rank(old))
    if node is None or node.graph is not None:
        return
    describe(new, old)
    if perm is not None and len(perm) == rank(old) and node.inputs[0] is not None and node.inputs[0].graph is None:
        describe(node.inputs[0], old, inverse(perm))
