"""Questions about shapes and types that many rules ask."""

from __future__ import annotations

import onnx_ir as ir


def rank(value: ir.Value | None) -> int | None:
    """Return the number of dimensions, if known."""
    return None if value is None or value.shape is None else len(value.shape)


def static_shape(value: ir.Value | None) -> tuple[int, ...] | None:
    """Return the shape if every dimension is a known number."""
    if value is None or value.shape is None:
        return None
    dims = value.shape.dims
    return tuple(int(dim) for dim in dims) if all(isinstance(dim, int) for dim in dims) else None  # pyright: ignore[reportArgumentType]


def dimension(value: ir.Value | None, axis: int) -> int | None:
    """Return one dimension, counted from the end if negative, if it is a known number."""
    length = rank(value)
    if value is None or value.shape is None or length is None or not -length <= axis < length:
        return None
    dim = value.shape[axis]
    return dim if isinstance(dim, int) else None


def same_shape(a: ir.Value | None, b: ir.Value | None) -> bool:
    """Tell whether two shapes are known and equal, named dimensions included."""
    if a is None or b is None or a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
        return False
    return all(
        p == q and not (isinstance(p, ir.SymbolicDim) and p.value is None)
        for p, q in zip(a.shape, b.shape, strict=True)
    )


def same_dtype(a: ir.Value | None, b: ir.Value | None) -> bool:
    """Tell whether two element types are known and equal."""
    return a is not None and b is not None and a.dtype is not None and a.dtype == b.dtype
