"""Arguments of nodes: inputs, or the attributes of older operator sets in their place."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import rank, static_shape


def argument(node: ir.Node, index: int) -> ir.Value | None:
    """Return an input; None if an optional one is missing."""
    return node.inputs[index] if index < len(node.inputs) else None


def is_given(node: ir.Node, index: int, attribute: str) -> bool:
    """Return whether an argument is given, as an input or as the attribute of older operator sets."""
    return argument(node, index) is not None or attribute in node.attributes


def integers(node: ir.Node, index: int, attribute: str = "") -> list[int] | None:
    """Return an argument that is a constant list of integers, from the input or the attribute; None otherwise."""
    value = argument(node, index)
    if value is not None:
        array = constant(value)
        return None if array is None else [int(item) for item in array.reshape(-1)]
    given = node.attributes.get(attribute)
    return None if given is None or given.is_ref() else list(given.as_ints())


def integer(node: ir.Node, attribute: str, default: int) -> int | None:
    """Return an attribute, or its default; None if it refers to an attribute of a function."""
    given = node.attributes.get(attribute)
    if given is None:
        return default
    return None if given.is_ref() else given.as_int()


def text(node: ir.Node, attribute: str, default: str) -> str | None:
    """Return a text attribute, or its default; None if it refers to an attribute of a function."""
    given = node.attributes.get(attribute)
    if given is None:
        return default
    return None if given.is_ref() else given.as_string()


def reduced_axes(node: ir.Node) -> list[int] | None:
    """Return the axes of a reduction, None if unknown: no axes mean all, unless ``noop_with_empty_axes`` is set."""
    axes = integers(node, 1, "axes") if is_given(node, 1, "axes") else []
    if axes:
        return axes
    empty_means_none, length = integer(node, "noop_with_empty_axes", 0), rank(node.inputs[0])
    if axes is None or empty_means_none is None:
        return None
    if empty_means_none:
        return []
    return None if length is None else list(range(length))


def squeezed_axes(node: ir.Node, length: int) -> list[int] | None:
    """Return the axes of a Squeeze or Unsqueeze, counted from the front of its larger shape of rank ``length``."""
    if not is_given(node, 1, "axes"):
        shape = static_shape(node.inputs[0])
        return None if shape is None else [axis for axis, size in enumerate(shape) if size == 1]
    axes = integers(node, 1, "axes")
    return None if axes is None else sorted(axis + length if axis < 0 else axis for axis in axes)
