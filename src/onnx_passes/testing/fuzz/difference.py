"""Difference of two results: its kind, and whether the claim of the rule accepts it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

import ml_dtypes
import numpy as np

from onnx_passes.testing.fuzz.report import Kind
from onnx_passes.verify.comparison.compare import TensorComparison, TensorStatus, compare
from onnx_passes.verify.comparison.evidence import DEFAULT, Limits
from onnx_passes.verify.comparison.ulp import Kind as Numbers
from onnx_passes.verify.comparison.ulp import kind_of

_ROUNDINGS = 16
"""Accepted error of a regrouped sum, in roundings of the largest value."""


class ResultClaim(Protocol):
    """Claim about results: their tolerance, None for equality, and the exceptions of fast math."""

    @property
    def limits(self) -> Limits | None:
        """Return the tolerance."""
        ...

    @property
    def fast_math(self) -> frozenset[str]:
        """Return the flags of the exceptions."""
        ...


@dataclass(frozen=True)
class Conditions:
    """Properties of the values of a run, which decide which differences are rounding, and which are accepted."""

    largest: float
    epsilon: float
    has_nan: bool
    has_infinity: bool
    is_exact: bool

    @staticmethod
    def of(arrays: Iterable[np.ndarray], *, is_exact: bool) -> Conditions:
        """Collect the properties of all values of a run."""
        largest, epsilon, has_nan, has_infinity = 0.0, 0.0, False, False
        for array in tensors_in(arrays):
            if not array.size or kind_of(array.dtype) is not Numbers.FLOAT:
                continue
            epsilon = max(epsilon, float(cast(Any, ml_dtypes.finfo(array.dtype)).eps))
            wide = np.abs(array.astype(np.float64))
            has_nan |= bool(np.isnan(wide).any())
            has_infinity |= bool(np.isinf(wide).any())
            largest = max(largest, float(wide[np.isfinite(wide)].max(initial=0.0)))
        return Conditions(largest, epsilon, has_nan, has_infinity, is_exact)


def tensors_in(results: Iterable[Any]) -> Iterator[np.ndarray]:
    """Yield the tensors of results, those of sequences one by one."""
    for result in results:
        if isinstance(result, np.ndarray):
            yield result
        elif isinstance(result, list):
            yield from tensors_in(cast("list[Any]", result))


def difference(
    expected: Mapping[str, np.ndarray], found: Mapping[str, np.ndarray], promised: ResultClaim, conditions: Conditions
) -> tuple[Kind, str] | None:
    """Return the most severe difference that is not accepted, and its kind."""
    flags = promised.fast_math
    kinds: list[tuple[Kind, str]] = []
    for tensor in compare(expected, found).tensors:
        kind = _kind(tensor, promised, conditions)
        if kind is not None:
            kinds.append((kind, tensor.message()))
    poisoned = ("nnan" in flags and conditions.has_nan) or ("ninf" in flags and conditions.has_infinity)
    if poisoned:
        # Results that depend on a NaN or infinity outside the claim are arbitrary, but of the same type and shape.
        kinds = [(kind, message) for kind, message in kinds if kind.severity < Kind.WRONG.severity]
    return min(kinds, key=lambda item: item[0].severity, default=None)


def _kind(tensor: TensorComparison, promised: ResultClaim, conditions: Conditions) -> Kind | None:
    match tensor.status:
        case TensorStatus.EQUAL:
            return None
        case TensorStatus.DTYPE:
            return Kind.DTYPE
        case TensorStatus.SHAPE:
            return Kind.SHAPE
        case TensorStatus.VALUES:
            assert tensor.arrays is not None
            return _kind_of_values(*tensor.arrays, promised, conditions)
        case _:
            return Kind.INTERFACE


def _kind_of_values(a: np.ndarray, b: np.ndarray, promised: ResultClaim, conditions: Conditions) -> Kind | None:
    flags, exact = promised.fast_math, promised.limits is None
    if kind_of(a.dtype) is not Numbers.FLOAT:
        rounds = not exact and not conditions.is_exact and bool(flags & {"reassoc", "contract"})
        return None if rounds else Kind.WRONG
    old, new = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(all="ignore"):
        same = (old == new) | (np.isnan(old) & np.isnan(new))
        signs = same & (old == 0) & (np.signbit(old) != np.signbit(new))
        nonfinite = ~same & ~(np.isfinite(old) & np.isfinite(new))
        others = ~same & ~nonfinite
        near = np.abs(new - old) <= _allowance(old, promised, conditions)
    if (others & ~near).any():
        return Kind.WRONG
    if nonfinite.any() and not _excused(old[nonfinite], new[nonfinite], flags):
        return Kind.NONFINITE
    if exact and signs.any() and "nsz" not in flags:
        return Kind.SIGNZERO
    if exact and others.any() and not flags & {"reassoc", "contract"}:
        return Kind.ROUND
    return None


def _allowance(old: np.ndarray, promised: ResultClaim, conditions: Conditions) -> np.ndarray:
    """Return the error up to which each element counts as rounded instead of wrong."""
    limits = (promised.limits or DEFAULT).of(old.dtype)
    rounding = _ROUNDINGS * conditions.epsilon
    return limits.atol + max(limits.rtol, rounding) * np.abs(old) + rounding * conditions.largest


def _excused(old: np.ndarray, new: np.ndarray, flags: frozenset[str]) -> bool:
    nan = np.isnan(old) | np.isnan(new)
    infinite = ~nan
    zero_divided = np.isinf(old) & np.isinf(new) & ("nsz" in flags)
    return bool(("nnan" in flags or not nan.any()) and ("ninf" in flags or not (infinite & ~zero_divided).any()))
