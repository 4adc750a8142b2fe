"""Predicates on shapes and types that many rules need."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.graph.constants import constant_tensor

Dim = int | ir.SymbolicDim

_ROUNDING = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BFLOAT16})
_BITS_OF_WHOLE_BYTES = 8


def rank(value: ir.Value | None) -> int | None:
    """Return the number of dimensions; None if unknown."""
    return None if value is None or value.shape is None else len(value.shape)


def static_shape(value: ir.Value | None) -> tuple[int, ...] | None:
    """Return the shape; None unless every dimension is a known number."""
    if value is None or value.shape is None:
        return None
    dims = value.shape.dims
    return tuple(int(dim) for dim in dims) if all(isinstance(dim, int) for dim in dims) else None  # pyright: ignore[reportArgumentType]


def dimension(value: ir.Value | None, axis: int) -> int | None:
    """Return one dimension, counted from the end if negative; None unless it is a known number."""
    length = rank(value)
    if value is None or value.shape is None or length is None or not -length <= axis < length:
        return None
    dim = value.shape[axis]
    return dim if isinstance(dim, int) else None


def same_shape(a: ir.Value | None, b: ir.Value | None) -> bool:
    """Return whether two shapes are known and equal, named dimensions included."""
    if a is None or b is None or a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
        return False
    return all(
        p == q and not (isinstance(p, ir.SymbolicDim) and p.value is None)
        for p, q in zip(a.shape, b.shape, strict=True)
    )


def same_dtype(a: ir.Value | None, b: ir.Value | None) -> bool:
    """Return whether two element types are known and equal."""
    return a is not None and b is not None and a.dtype is not None and a.dtype == b.dtype


def dims(value: ir.Value | None) -> tuple[Dim, ...] | None:
    """Return the dimensions of a value, declared or of its constant; None if unknown."""
    if value is None:
        return None
    if value.shape is not None:
        return tuple(value.shape)
    tensor = constant_tensor(value)
    return None if tensor is None else tuple(tensor.shape.numpy())


def same_dim(a: Dim, b: Dim) -> bool:
    """Return whether two dimensions are known to be equal."""
    return a == b and not (isinstance(a, ir.SymbolicDim) and a.value is None)


def broadcast(a: tuple[Dim, ...] | None, b: tuple[Dim, ...] | None) -> tuple[Dim, ...] | None:
    """Return the broadcast dimensions; None unless they are certain."""
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
    """Return whether a node is known to keep the shape of its first input, for all overrides by a caller."""
    overridable = any(
        value is not None and value.is_initializer() and value.is_graph_input() for value in node.inputs[1:]
    )
    return not overridable and same_shape(node.inputs[0], node.outputs[0])


def keeps_shape(x: ir.Value, result: ir.Value, *others: ir.Value | None) -> bool:
    """Return whether broadcasting ``x`` against others keeps the shape of ``x``, including its rank."""
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


def vanishes_into(dropped: ir.Value, *kept: ir.Value) -> bool:
    """Return whether dropping an operand leaves the broadcast shape of the others unchanged."""
    small, whole = dims(dropped), dims(kept[0])
    for value in kept[1:]:
        whole = broadcast(whole, dims(value))
    if small == ():
        return True
    return small is not None and whole is not None and broadcast(whole, small) == whole and len(small) <= len(whole)


def is_integral(value: ir.Value | None) -> bool:
    """Return whether a value holds integers or booleans: no NaN, no signed zeros, no rounding."""
    return (
        value is not None and value.dtype is not None and (value.dtype.is_integer() or value.dtype == ir.DataType.BOOL)
    )


def has_no_signs(value: ir.Value) -> bool:
    """Return whether a value holds no signed zeros: integers, booleans or texts."""
    return is_integral(value) or value.dtype == ir.DataType.STRING


def is_float(value: ir.Value | None) -> bool:
    """Return whether a value holds floats whose arithmetic rounds."""
    return value is not None and value.dtype in _ROUNDING


def is_whole(value: ir.Value | None) -> bool:
    """Return whether a value holds integers, which wrap around, so that the laws of rings are exact."""
    dtype = None if value is None else value.dtype
    return dtype is not None and dtype.is_integer() and dtype.bitwidth >= _BITS_OF_WHOLE_BYTES


def is_discrete(value: ir.Value | None) -> bool:
    """Return whether a value holds integers or booleans."""
    return is_whole(value) or (value is not None and value.dtype is ir.DataType.BOOL)


def is_common_float(value: ir.Value) -> bool:
    """Return whether a value holds floats of a precision that every runtime supports."""
    return value.dtype in (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16)
