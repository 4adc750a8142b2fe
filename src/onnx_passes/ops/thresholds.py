"""What operators with thresholds have in common: shapes, types, and thresholds that are not constant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.graph.shapes import static_shape
from onnx_passes.ops.step_functions import Steps, can_count_by_search, count, count_by_search

if TYPE_CHECKING:
    from onnx_passes.graph.builder import Builder

FEW = 16
"""Up to so many thresholds are compared with one by one, rather than searched."""
FEW_COUNTED_SMALL = 32


def known_shape(given: ir.Value, held: np.ndarray | None, where: str, axes: int | None = None) -> tuple[int, ...]:
    """Return the shape of thresholds, which has to be known, and to have so many axes."""
    shape = static_shape(given) if held is None else held.shape
    if shape is None:
        raise ModelError("the number of thresholds has to be known", where=where, hint="infer shapes first")
    if not shape or 0 in shape or axes not in (None, len(shape)):
        wanted = "the shape [C, N], or [1, N]" if axes else "at least one axis"
        raise ModelError(f"thresholds need {wanted}, with no axis of length 0, not {list(shape)}", where=where)
    return shape


def count_given(
    op: Builder, x: ir.Value, given: ir.Value, dtype: ir.DataType, shape: tuple[int, ...], kind: np.dtype[Any]
) -> ir.Value:
    """Count thresholds that are not constant, of which the shape is known, or another one to see them in."""
    if shape[-1] > FEW and can_count_by_search(op, dtype.numpy()):
        typed = given if given.dtype in (None, dtype) else op.Cast(given, to=dtype)
        steps = Steps(np.zeros(shape, dtype.numpy()), np.zeros(shape[-1] + 1))
        counted = count_by_search(op, x, typed, steps)
        return counted if kind == np.float32 else op.Cast(counted, to=ir.DataType.from_numpy(kind))
    one = np.array(shape[:-1], np.int64)
    return count(op, x, [op.Reshape(column, one) for column in columns_of(op, given, dtype, shape[-1])], kind)


def columns_of(
    op: Builder, given: ir.Value, dtype: ir.DataType, amount: int, *, shared: bool = False, where: str = ""
) -> list[ir.Value]:
    """Take thresholds, or weights, apart along the last axis; where one is shared by all it comes as often."""
    is_shared = shared and known_shape(given, None, where)[-1] == 1
    if given.dtype not in (None, dtype):
        given = op.Cast(given, to=dtype)
    if is_shared:
        return [op.Gather(given, np.array(0), axis=-1)] * amount
    return [op.Gather(given, np.array(n), axis=-1) for n in range(amount)]


def comparable(op: Builder, x: ir.Value, given: ir.Value) -> tuple[ir.Value, ir.DataType]:
    """Return x in the type in which it is compared with thresholds, and that type."""
    dtype = x.dtype or given.dtype or ir.DataType.FLOAT
    common = dtype if given.dtype is None else _common(dtype.numpy(), given.dtype.numpy())
    return (x if common == dtype else op.Cast(x, to=common)), common


def _common(x: np.dtype[Any], thresholds: np.dtype[Any]) -> ir.DataType:
    return ir.DataType.from_numpy(np.promote_types(x, thresholds))


def reached(x: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Compare in the type that values and thresholds have in common."""
    dtype = np.promote_types(x.dtype, thresholds.dtype)
    with np.errstate(invalid="ignore"):
        return x.astype(dtype, copy=False) >= thresholds.astype(dtype, copy=False)
