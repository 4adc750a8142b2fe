"""Values of constants: common operands that rules match, and special values that rules easily overlook."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.tensor_types import integer_limits
from onnx_passes.ops.facts.allowed_values import float_info

Shape = tuple[int, ...]

_ANY = ("mixed", "mixed", "ramp", "one", "zero", "minus-one", "two", "half", "third", "positive", "power")
_FLOATS = ("huge", "inf", "minus-inf", "nan", "minus-zero", "special")
_INTEGERS = ("lowest", "highest", "all-ones")
_MATRICES = ("identity", "diagonal")


def recipes(dtype: ir.DataType, shape: Shape) -> Sequence[str]:
    """List the recipes for constants of a type and shape, the simple and frequent ones first."""
    if dtype is ir.DataType.BOOL:
        return ("mixed", "zero", "one")
    if dtype is ir.DataType.STRING:
        return ("mixed",)
    found = [*_ANY, *_ANY, *(_FLOATS if dtype.is_floating_point() else _INTEGERS)]
    if len(shape) >= 2:
        found += _MATRICES
    return found


def make(recipe: str, dtype: ir.DataType, shape: Shape, seed: int) -> np.ndarray:
    """Fill a constant by a recipe."""
    if dtype is ir.DataType.STRING:
        return strings(np.random.default_rng(seed), shape)
    return convert(_numbers(recipe, dtype, shape, np.random.default_rng(seed)), dtype)


def convert(numbers: Any, dtype: ir.DataType) -> np.ndarray:
    """Convert numbers to a type: saturate at its limits, NaN becomes zero."""
    array = np.asarray(numbers)
    with np.errstate(all="ignore"):
        if not dtype.is_integer():
            return array.astype(dtype.numpy())
        low, high = integer_limits(dtype)
        if array.dtype.kind == "f":
            array = np.rint(np.nan_to_num(array, nan=0.0, posinf=float(high), neginf=float(low)))
        whole = [min(max(int(item), low), high) for item in array.reshape(-1)]
        return np.array(whole, dtype.numpy()).reshape(array.shape)


def special_floats(dtype: ir.DataType) -> list[float]:
    """List floats with unusual arithmetic."""
    info = float_info(dtype)
    largest, normal, least = float(info.max), float(info.smallest_normal), float(info.smallest_subnormal)
    plain = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5]
    return [*plain, np.inf, -np.inf, np.nan, largest, -largest, normal, -normal, least, -least]


def strings(random: np.random.Generator, shape: Shape) -> np.ndarray:
    """Draw strings, including the empty one."""
    words = ("a", "", "b")
    return np.array([words[i] for i in random.integers(3, size=shape).flat], dtype=object).reshape(shape)


_EQUAL = {
    "zero": 0.0,
    "one": 1.0,
    "minus-one": -1.0,
    "two": 2.0,
    "half": 0.5,
    "huge": 1e30,
    "inf": np.inf,
    "minus-inf": -np.inf,
    "nan": np.nan,
    "minus-zero": -0.0,
}


def _numbers(recipe: str, dtype: ir.DataType, shape: Shape, random: np.random.Generator) -> Any:
    if recipe in _EQUAL:
        return np.full(shape, _EQUAL[recipe])
    match recipe:
        case "third":
            return 0.37 * random.integers(1, 6, shape) * random.choice([-1, 1], shape)
        case "power":
            return np.exp2(np.asarray(random.integers(-3, 4, shape), np.float64))
        case "positive":
            return np.asarray(random.integers(1, 6, shape), np.float64)
        case "ramp":
            return np.arange(math.prod(shape), dtype=np.float64).reshape(shape)
        case "special":
            return random.choice(special_floats(dtype), shape)
        case "lowest" | "highest":
            return np.full(shape, integer_limits(dtype)[recipe == "highest"], dtype=object)
        case "all-ones":
            return np.full(shape, -1 if dtype.is_signed() else integer_limits(dtype)[1], dtype=object)
        case "identity" | "diagonal":
            eye = np.eye(shape[-2], shape[-1]) * (1 if recipe == "identity" else random.integers(1, 4))
            return np.broadcast_to(eye, shape)
        case _:
            low, high = (0, 2) if dtype is ir.DataType.BOOL else (-3 if dtype.is_signed() else 0, 5)
            return np.asarray(random.integers(low, high, shape), np.float64)
