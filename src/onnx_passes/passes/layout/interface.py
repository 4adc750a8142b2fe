"""Layout changes of the inputs and outputs of a model."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnx_passes.graph.edits import carry_annotations, copy_type, prepend, read_instead
from onnx_passes.graph.names import Names
from onnx_passes.graph.permutations import inverse
from onnx_passes.passes.layout.layouts import LayoutChange

MARK = "onnx_passes.layout"
"""Metadata key of an input or output for its change of layout."""


def convert_input(graph: ir.Graph, value: ir.Value, change: LayoutChange, names: Names) -> None:
    """Transpose an input to its original layout, and set the shape of the new layout."""
    old = value.shape
    assert old is not None
    node = transpose_of(value, change.perm, names)
    node.outputs[0].name = names.value(f"{value.name}_{change.gives.lower() or 'transposed'}")
    node.outputs[0].shape = old
    read_instead(value, [node])
    value.shape = permuted_shape(old, inverse(change.perm))
    value.metadata_props[MARK] = str(change)
    prepend(graph, [node])


def convert_output(graph: ir.Graph, value: ir.Value, change: LayoutChange, names: Names) -> None:
    """Return the transposed value under the original name; the original value gets another name."""
    assert value.shape is not None
    node = transpose_of(value, change.perm, names)
    node.outputs[0].shape = permuted_shape(value.shape, change.perm)
    return_instead(graph, value, [node], change, names)


def return_instead(
    graph: ir.Graph, value: ir.Value, nodes: Sequence[ir.Node], change: LayoutChange, names: Names
) -> None:
    """Return the result of the last node instead of ``value``, under its name."""
    result = nodes[-1].outputs[0]
    result.name, value.name = value.name, names.value(f"{value.name}_{change.assumes.lower() or 'before'}")
    result.metadata_props[MARK] = str(change)
    graph.extend(nodes)
    for index, output in enumerate(graph.outputs):
        if output is value:
            graph.outputs[index] = result


def transpose_of(value: ir.Value, perm: Sequence[int], names: Names) -> ir.Node:
    """Make a transposition of a value."""
    node = ir.node("Transpose", [value], {"perm": list(perm)}, name=names.node(f"{value.name}/Transpose"))
    describe(node.outputs[0], value)
    return node


def describe(result: ir.Value, value: ir.Value) -> None:
    """Give a new value the type and annotations of another."""
    result.type = None if value.type is None else copy_type(value.type)
    carry_annotations(value, result)


def permuted_shape(shape: ir.Shape, perm: Sequence[int]) -> ir.Shape:
    """Permute dimensions and their denotations."""
    return ir.Shape([shape[axis] for axis in perm], denotations=[shape.get_denotation(axis) for axis in perm])
