"""What the rules of this room ask about nodes: their constant arguments, and whether shapes stay as they are."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.constants import constant, constant_tensor
from onnx_passes.graph.shapes import same_shape

Dim = int | ir.SymbolicDim


def argument(node: ir.Node, index: int) -> ir.Value | None:
    """Return an input, or nothing where an optional one is left out."""
    return node.inputs[index] if index < len(node.inputs) else None


def is_used_elsewhere(value: ir.Value) -> bool:
    """Tell whether a value inside a match has other users than the one of the match."""
    return value.is_graph_output() or len(value.uses()) > 1


def is_only_read_by(value: ir.Value, nodes: Collection[ir.Node]) -> bool:
    """Tell whether neither a caller nor any other node reads a value."""
    return not value.is_graph_output() and all(use.node in nodes for use in value.uses())


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


def opset_of(op: Any) -> int:
    """Return the version of the operators that a rewrite builds."""
    return op.opset


def dims(value: ir.Value | None) -> tuple[Dim, ...] | None:
    """Return the dimensions of a value, from its declaration or from what it holds."""
    if value is None:
        return None
    if value.shape is not None:
        return tuple(value.shape)
    tensor = constant_tensor(value)
    return None if tensor is None else tuple(tensor.shape.numpy())


def same_dim(a: Dim, b: Dim) -> bool:
    """Tell whether two dimensions are known to be equal."""
    return a == b and not (isinstance(a, ir.SymbolicDim) and a.value is None)


def broadcast(a: tuple[Dim, ...] | None, b: tuple[Dim, ...] | None) -> tuple[Dim, ...] | None:
    """Return the dimensions that broadcasting gives, if they are known for sure."""
    if a is None or b is None:
        return None
    if len(a) < len(b):
        a, b = b, a
    result = list(a[: len(a) - len(b)])
    for p, q in zip(a[len(a) - len(b) :], b, strict=True):
        if not (p == 1 or q == 1 or same_dim(p, q)):
            return None
        result.append(q if p == 1 else p)
    return tuple(result)


def stays(node: ir.Node) -> bool:
    """Tell whether a node is known to give the shape of its first input, whatever a caller may override."""
    overridable = any(
        value is not None and value.is_initializer() and value.is_graph_input() for value in node.inputs[1:]
    )
    return not overridable and same_shape(node.inputs[0], node.outputs[0])


def keeps_shape(x: ir.Value, result: ir.Value, *others: ir.Value | None) -> bool:
    """Tell whether an operator that broadcasts ``x`` against others gives the shape of ``x``, rank included."""
    return same_shape(x, result) or all(_vanishes(dims(other), x) for other in others if other is not None)


def _vanishes(small: tuple[Dim, ...] | None, x: ir.Value) -> bool:
    if small is None:
        return False
    if not small:
        return True
    whole = dims(x)
    if whole is None or len(small) > len(whole):
        return False
    return all(p == 1 or same_dim(p, q) for p, q in zip(small, whole[len(whole) - len(small) :], strict=True))


def holds_only(value: ir.Value | None, number: float) -> bool:
    """Tell whether a value is constant and every element is a number; zeros have to have its sign."""
    array = constant(value)
    if array is None or array.dtype == object:
        return False
    with np.errstate(all="ignore"):
        wanted = np.asarray(number).astype(array.dtype)
    start = array.reshape(-1)[:1]
    return _equal(start, wanted) and _equal(array, wanted)


def _equal(array: np.ndarray, number: np.ndarray) -> bool:
    if not (array == number).all():
        return False
    if number != 0 or array.dtype.kind in "biu":
        return True
    return bool((np.signbit(array.astype(np.float64)) == np.signbit(number.astype(np.float64))).all())


def is_integral(value: ir.Value | None) -> bool:
    """Tell whether a value holds integers or booleans: no NaN, no signed zeros, no rounding."""
    return (
        value is not None and value.dtype is not None and (value.dtype.is_integer() or value.dtype == ir.DataType.BOOL)
    )


def has_no_signs(value: ir.Value) -> bool:
    """Tell whether a value holds no zeros with a sign: integers, booleans or texts."""
    return is_integral(value) or value.dtype == ir.DataType.STRING
