"""What layer normalization and its relatives have in common: trailing axes, scales that fit them, samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.arithmetic import rounded
from onnx_passes.graph.constants import constant, finite_constant, number
from onnx_passes.graph.shapes import dimension, rank
from onnx_passes.rewrite.refusal import Refusal, no


def trailing_axis(mean: ir.Value, x: ir.Value) -> int | None:
    """Return the first of the axes that a mean goes over, counted from the end, if these are the last of ``x``."""
    node, dims = mean.producer(), rank(x)
    if node is None or dims is None or not node.attributes.get_int("keepdims", 1):
        return None
    given = constant(node.inputs[1]) if len(node.inputs) > 1 else node.attributes.get_ints("axes")
    if given is None or len(given) == 0:
        return None
    axes = sorted(int(axis) - dims if axis >= 0 else int(axis) for axis in given)
    return axes[0] if axes == list(range(-len(axes), 0)) else None


def trailing_shape(x: ir.Value, axis: int) -> tuple[int, ...] | None:
    """Return the sizes of the axes from a negative one on, if they are known."""
    sizes = [dimension(x, i) for i in range(axis, 0)]
    return None if any(size is None for size in sizes) else tuple(size or 0 for size in sizes)


def refuse_norm(x: ir.Value, axes: Sequence[int | None], epsilon: ir.Value, two: ir.Value | None) -> Refusal | None:
    """Say what stands against a normalization; squares may be powers of ``two``."""
    if x.dtype not in (ir.DataType.FLOAT, ir.DataType.FLOAT16):
        return no("the input is not of single or half precision, in which the operator computes", at=x)
    if axes[0] is None or any(axis != axes[0] for axis in axes):
        return no("the means are not over the same last axes", at=x)
    shape = trailing_shape(x, axes[0])
    if shape is None or 0 in shape:
        return no("the sizes of the last axes are not known", at=x)
    added = number(epsilon, x)
    if added is None or not 0 <= added < np.inf:
        return no("what is added to the variance is not a constant number", at=epsilon)
    if two is not None and number(two, x) != 2:
        return no("the power is not a square", at=two)
    return None


def build_norm(op: Any, operator: str, x: ir.Value, mean: ir.Value, epsilon: ir.Value) -> Any:
    """Build a normalization over the axes of a mean, with a scale of ones."""
    axis = trailing_axis(mean, x)
    assert axis is not None
    shape = trailing_shape(x, axis)
    assert shape is not None
    assert x.dtype is not None
    ones = op.initializer(np.ones(shape, x.dtype.numpy()), "scale")
    return op.op(operator, x, ones, axis=axis, epsilon=number(epsilon, x))


def scale_norm(op: Any, y: ir.Value, factor: ir.Value) -> Any:
    """Build a normalization whose result is multiplied."""
    node = y.producer()
    assert node is not None
    x, scale, *others = node.inputs
    bias = others[0] if others else None
    old, wide = finite_constant(scale), finite_constant(factor)
    if scale is None or old is None or scale.dtype is None or scale.dtype != factor.dtype:
        return no("the scale of the normalization is not constant, or of another type", at=scale)
    if wide is None:
        if bias is None and factor is not y and (old == 1).all() and factor.shape == old.shape:
            return op.op(node.op_type, x, factor, **node.attributes)
        return no("the factor is not constant and finite", at=factor)
    shift = None if bias is None else finite_constant(bias)
    if bias is not None and shift is None:
        return no("the bias of the normalization is not constant and finite", at=bias)
    spread = _spread(wide, old.shape, rank(x))
    if spread is None:
        return no("the factor does not fit the normalized axes", at=factor)
    made = [rounded(array * spread, scale.dtype) for array in (old, shift) if array is not None]
    if any(array is None for array in made):
        return no("the new scale would not be finite", at=factor)
    return op.op(node.op_type, x, *(op.initializer(array, "scale") for array in made), **node.attributes)


def shift_norm(op: Any, y: ir.Value, added: ir.Value) -> Any:
    """Build a normalization to whose result something is added."""
    node = y.producer()
    assert node is not None
    x, scale, *others = node.inputs
    bias = others[0] if others else None
    if scale is None or scale.shape is None or scale.dtype is None or added.dtype != scale.dtype:
        return no("the scale of the normalization is of unknown shape, or of another type", at=scale)
    wide = finite_constant(added)
    if wide is None:
        fits = added.shape is not None and added.shape == scale.shape and scale.shape.is_static()
        if bias is None and added is not y and fits:
            return op.op(node.op_type, x, scale, added, **node.attributes)
        return no("what is added is not constant and finite", at=added)
    old = None if bias is None else finite_constant(bias)
    if (bias is not None and old is None) or not scale.shape.is_static():
        return no("the bias of the normalization is not constant and finite", at=bias)
    spread = _spread(wide, tuple(int(dim) for dim in scale.shape.numpy()), rank(x))
    if spread is None:
        return no("what is added does not fit the normalized axes", at=added)
    made = rounded(spread if old is None else spread + old, scale.dtype)
    if made is None:
        return no("the new bias would not be finite", at=added)
    return op.op(node.op_type, x, scale, op.initializer(made, "bias"), **node.attributes)


def _spread(array: np.ndarray, shape: tuple[int, ...], dims: int | None) -> np.ndarray | None:
    """Broadcast a constant to the normalized axes, if it does not vary along others nor enlarge the result."""
    extra = array.ndim - len(shape)
    if dims is None or array.ndim > dims or any(size != 1 for size in array.shape[: max(extra, 0)]):
        return None
    array = array.reshape(array.shape[max(extra, 0) :])
    pairs = zip(reversed(array.shape), reversed(shape), strict=False)
    return np.broadcast_to(array, shape) if all(a in (1, b) for a, b in pairs) else None
