"""What the rules of this room ask: which numbers are exact, and what arithmetic on constants may lose."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import ml_dtypes
import numpy as np
import onnx_ir as ir

from onnx_passes.graph.constants import constant
from onnx_passes.passes.eliminate.evidence import broadcast, dims
from onnx_passes.passes.fuse.conditions import grows

_FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BFLOAT16})
_BITS_OF_WHOLE_BYTES = 8
_NOTICEABLE = 1e-6
_CANCELLED = 16

_COMPUTE: Mapping[str, Callable[[Any, Any], Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "And": np.logical_and,
    "Or": np.logical_or,
    "Xor": np.logical_xor,
    "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
}


def is_float(value: ir.Value | None) -> bool:
    """Tell whether a value holds floats that arithmetic rounds to."""
    return value is not None and value.dtype in _FLOATS


def is_whole(value: ir.Value | None) -> bool:
    """Tell whether a value holds integers, which wrap around: laws of rings are exact then."""
    dtype = None if value is None else value.dtype
    return dtype is not None and dtype.is_integer() and dtype.bitwidth >= _BITS_OF_WHOLE_BYTES


def is_discrete(value: ir.Value | None) -> bool:
    """Tell whether a value holds integers or booleans."""
    return is_whole(value) or (value is not None and value.dtype is ir.DataType.BOOL)


def combined(op_type: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Compute with constants as the model would; integers wrap around, floats are rounded once, from double."""
    with np.errstate(all="ignore"):
        if a.dtype.kind in "biu":
            return np.asarray(_COMPUTE[op_type](a, b)).astype(a.dtype)
        return np.asarray(_COMPUTE[op_type](wide(a), wide(b))).astype(a.dtype)


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


def is_copied(value: ir.Value) -> bool:
    """Tell whether a changed constant would come on top of a large one that others still use."""
    return grows(value)


def owned_constant(value: ir.Value) -> np.ndarray | None:
    """Return a constant that may be replaced by a changed one."""
    array = constant(value)
    return None if array is None or array.dtype == object or is_copied(value) else array


def is_own_constant(value: ir.Value) -> bool:
    """Tell whether a value is a constant that may be replaced by a changed one."""
    return owned_constant(value) is not None


def grows_by_broadcasting(result: np.ndarray, *parts: np.ndarray) -> bool:
    """Tell whether a combined constant is larger than each of its parts."""
    return result.size > max(part.size for part in parts)


def is_product_safe(a: np.ndarray, b: np.ndarray) -> bool:
    """Tell whether two factors are finite and have a product that neither overflows nor loses digits."""
    product, least = wide(combined("Mul", a, b)), float(limits_of(a).smallest_normal)
    if not (np.isfinite(wide(a)).all() and np.isfinite(wide(b)).all() and np.isfinite(product).all()):
        return False
    return bool(((np.abs(product) >= least) | (wide(a) == 0) | (wide(b) == 0)).all())


def is_unnoticed_at_the_limit(array: np.ndarray) -> bool:
    """Tell whether a summand is so small that adding it never leads a finite float out of range."""
    info = limits_of(array)
    return bool((np.abs(wide(array)) < float(info.max) * float(info.eps) / 4).all())


def cancels(a: np.ndarray, b: np.ndarray) -> bool:
    """Tell whether a sum of constants is so much smaller than they are that their rounding would show, or was meant.

    ``(x + 12582912) - 12582912`` rounds to integers.
    """
    largest = np.maximum(np.abs(wide(a)), np.abs(wide(b)))
    lost = np.abs(wide(a) + wide(b)) * _CANCELLED < largest
    shows = largest * float(limits_of(a).eps) > _NOTICEABLE
    return bool((lost & shows).any())


def held(value: ir.Value) -> np.ndarray:
    """Return what a value holds that a check found to be constant."""
    array = constant(value)
    assert array is not None
    return array


def folded(op_type: str, a: ir.Value, b: ir.Value) -> np.ndarray:
    """Compute an operator of two constants."""
    return combined(op_type, held(a), held(b))


def grows_when_folded(op_type: str, a: ir.Value, b: ir.Value) -> bool:
    """Tell whether an operator of two constants gives one that is larger than each of them."""
    return grows_by_broadcasting(folded(op_type, a, b), held(a), held(b))


def vanishes_into(dropped: ir.Value, *kept: ir.Value) -> bool:
    """Tell whether what is kept is broadcast to the same shape without an operand as with it."""
    small, whole = dims(dropped), dims(kept[0])
    for value in kept[1:]:
        whole = broadcast(whole, dims(value))
    if small == ():
        return True
    return small is not None and whole is not None and broadcast(whole, small) == whole and len(small) <= len(whole)
