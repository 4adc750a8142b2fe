"""Arguments of nodes: inputs, or the attributes that older operator sets have instead."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.graph.constants import constant


def argument(node: ir.Node, index: int) -> ir.Value | None:
    """Return an input, or nothing where an optional one is left out."""
    return node.inputs[index] if index < len(node.inputs) else None


def is_given(node: ir.Node, index: int, attribute: str) -> bool:
    """Tell whether an argument is there, as an input or as the attribute that older operator sets have instead."""
    return argument(node, index) is not None or attribute in node.attributes


def integers(node: ir.Node, index: int, attribute: str = "") -> list[int] | None:
    """Return an argument that is a constant list of integers, from the input or the attribute."""
    value = argument(node, index)
    if value is not None:
        array = constant(value)
        return None if array is None else [int(item) for item in array.reshape(-1)]
    given = node.attributes.get(attribute)
    return None if given is None or given.is_ref() else list(given.as_ints())


def integer(node: ir.Node, attribute: str, default: int) -> int | None:
    """Return an attribute, or its default; nothing if it refers to an attribute of a function."""
    given = node.attributes.get(attribute)
    if given is None:
        return default
    return None if given.is_ref() else given.as_int()


def text(node: ir.Node, attribute: str, default: str) -> str | None:
    """Return an attribute that is a text, or its default; nothing if it refers to an attribute of a function."""
    given = node.attributes.get(attribute)
    if given is None:
        return default
    return None if given.is_ref() else given.as_string()
