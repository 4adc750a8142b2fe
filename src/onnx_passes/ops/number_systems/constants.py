"""Arithmetic on constants with the rounding of a model, and checks of its losses."""

from __future__ import annotations

from typing import Any, cast

import ml_dtypes
import numpy as np
import onnx_ir as ir

from onnx_passes.graph.constants import held
from onnx_passes.numbers.algebra import Symbol
from onnx_passes.ops.number_systems.scalars import compute

_NOTICEABLE = 1e-6
_CANCELLED = 16


def combined(op_type: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Compute with constants as the model would: integers wrap around, floats are rounded once."""
    dtype = ir.DataType.from_numpy(a.dtype)
    return compute(Symbol(op_type, dtype, (dtype, dtype)), [a, b])


def negated(array: np.ndarray) -> np.ndarray:
    """Negate a constant; integers wrap around, unsigned ones too."""
    with np.errstate(all="ignore"):
        return np.asarray(np.negative(array)).astype(array.dtype)


def wide(array: np.ndarray) -> np.ndarray:
    """Return floats in double precision."""
    return np.asarray(array).astype(np.float64)


def limits_of(array: np.ndarray) -> Any:
    """Return range and precision of the type of an array of floats."""
    return cast("Any", ml_dtypes.finfo(array.dtype))


def folded(op_type: str, a: ir.Value, b: ir.Value) -> np.ndarray:
    """Return the result of an operator on two constants."""
    return combined(op_type, held(a), held(b))


def grows_by_broadcasting(result: np.ndarray, *parts: np.ndarray) -> bool:
    """Return whether a combined constant is larger than each operand."""
    return result.size > max(part.size for part in parts)


def grows_when_folded(op_type: str, a: ir.Value, b: ir.Value) -> bool:
    """Return whether an operator on two constants gives a larger constant than each of them."""
    return grows_by_broadcasting(folded(op_type, a, b), held(a), held(b))


def is_product_safe(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether two factors are finite and their product neither overflows nor loses digits."""
    product, least = wide(combined("Mul", a, b)), float(limits_of(a).smallest_normal)
    if not (np.isfinite(wide(a)).all() and np.isfinite(wide(b)).all() and np.isfinite(product).all()):
        return False
    return bool(((np.abs(product) >= least) | (wide(a) == 0) | (wide(b) == 0)).all())


def is_unnoticed_at_the_limit(array: np.ndarray) -> bool:
    """Return whether a summand is so small that adding it never makes a finite float overflow."""
    info = limits_of(array)
    return bool((np.abs(wide(array)) < float(info.max) * float(info.eps) / 4).all())


def cancels(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether a sum of constants cancels so far that their rounding would be visible, or is intended.

    ``(x + 12582912) - 12582912`` rounds to integers.
    """
    largest = np.maximum(np.abs(wide(a)), np.abs(wide(b)))
    lost = np.abs(wide(a) + wide(b)) * _CANCELLED < largest
    shows = largest * float(limits_of(a).eps) > _NOTICEABLE
    return bool((lost & shows).any())


def rounded(wide: np.ndarray, dtype: ir.DataType) -> np.ndarray | None:
    """Round once to the type of the model; None if an element is not finite."""
    with np.errstate(all="ignore"):
        array = wide.astype(dtype.numpy())
    return array if np.isfinite(array.astype(np.float64)).all() else None


def per_channel(array: np.ndarray, rank: int, axis: int, channels: int) -> np.ndarray | None:
    """Broadcast a constant over channels; None if it varies along another axis or would enlarge the other operand."""
    if array.ndim > rank:
        return None
    shape = (1,) * (rank - array.ndim) + array.shape
    axis %= rank
    if any(size != 1 for i, size in enumerate(shape) if i != axis) or shape[axis] not in (1, channels):
        return None
    return np.broadcast_to(array.reshape(-1), (channels,))
