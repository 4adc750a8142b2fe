"""Scalar functions of operators, computed by numpy in the true type of their operands.

Functions that are ``settled`` have one result that every runtime agrees on, bit by bit: they are rounded correctly, or
do not round at all. Others, such as ``Exp``, are only approximated. Arithmetic, comparisons, logic, bits and casts are
defined here, activations in ``scalar_activations``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.operators import Interface
from onnx_passes.numbers.algebra import Algebra, Symbol

Array = np.ndarray[Any, Any]
Compute = Callable[..., np.ndarray]
Undefined = Callable[..., np.ndarray]


@dataclass(frozen=True)
class Scalar:
    """A scalar function: what it computes, given the symbol and its operands, and whether all runtimes agree.

    ``undefined`` tells for which operands they do not all the same.
    """

    compute: Compute
    settled: bool = True
    undefined: Undefined | None = None


SCALARS: Interface[Scalar] = Interface(
    "scalar",
    "the scalar function that it applies to each element, for proofs",
    "onnx_passes.ops.number_systems.scalars",
    "onnx_passes.ops.number_systems.scalar_activations",
)


def compute(symbol: Symbol, operands: list[np.ndarray]) -> np.ndarray:
    """Compute a scalar function; the result has the type that the symbol says."""
    scalar = SCALARS.get(("", symbol.name))
    if scalar is None:
        raise KeyError(symbol.name)
    with np.errstate(all="ignore"):
        result: Any = scalar.compute(symbol, *operands)
        return np.asarray(result).astype(symbol.dtype.numpy(), copy=False)


def is_known(symbol: Symbol) -> bool:
    """Tell whether it is known what a scalar function computes."""
    return SCALARS.get(("", symbol.name)) is not None


def is_settled(symbol: Symbol, operands: Sequence[np.ndarray] | None = None) -> bool:
    """Tell whether every runtime computes the same bits, of given operands or of all."""
    scalar = SCALARS.get(("", symbol.name))
    if scalar is None or not scalar.settled:
        return False
    return operands is None or not bool(np.any(undefined(symbol, operands)))


def undefined(symbol: Symbol, operands: Sequence[np.ndarray]) -> np.ndarray:
    """Tell for which operands runtimes may differ: division by zero, casts out of range, the larger of two zeros."""
    scalar = SCALARS.get(("", symbol.name))
    if scalar is None or scalar.undefined is None:
        return np.zeros((), bool)
    with np.errstate(all="ignore"):
        return scalar.undefined(symbol, *operands)


class UnsettledError(Exception):
    """Runtimes may compute different bits here."""


class Numbers(Algebra):
    """Elements are numbers in their true type."""

    def variable(self, name: str, dtype: ir.DataType, shape: Sequence[int]) -> np.ndarray:
        """Refuse: a variable has no number."""
        raise UnsettledError(name)

    def constant(self, dtype: ir.DataType, array: np.ndarray) -> np.ndarray:
        """Return the numbers themselves."""
        return array

    def scalar(self, symbol: Symbol, operands: Sequence[np.ndarray]) -> np.ndarray:
        """Compute functions that are rounded correctly."""
        if not is_settled(symbol, operands):
            raise UnsettledError(symbol.name)
        return compute(symbol, list(operands))

    def sequence(self, symbol: Symbol, operands: Sequence[np.ndarray]) -> np.ndarray:
        """Refuse: sums have no promised order."""
        raise UnsettledError(symbol.name)

    def opaque(self, symbol: Symbol, operands: Sequence[np.ndarray], shape: Sequence[int]) -> np.ndarray:
        """Refuse: nothing is known of the function."""
        raise UnsettledError(symbol.name)


def is_integer(dtype: ir.DataType) -> bool:
    """Tell whether a type holds integers, which wrap around."""
    return dtype.is_integer()


def is_float(dtype: ir.DataType) -> bool:
    """Tell whether a type holds floats."""
    return dtype.is_floating_point()


def _divided(symbol: Symbol, a: Array, b: Array) -> Array:
    if is_float(symbol.dtype):
        return a / b
    safe = np.where(b == 0, 1, b).astype(b.dtype)
    quotient = a // safe
    wrong = (a - quotient * safe != 0) & ((a < 0) != (safe < 0))
    return np.where(b == 0, 0, quotient + wrong.astype(a.dtype))


def _modulo(symbol: Symbol, a: Array, b: Array) -> Array:
    if is_float(symbol.dtype):
        return np.fmod(a, b) if symbol.params[0] else np.mod(a, b)
    safe = np.where(b == 0, 1, b).astype(b.dtype)
    return np.where(b == 0, 0, np.fmod(a, safe) if symbol.params[0] else np.mod(a, safe))


def _clipped(_: Symbol, x: Array, low: Array, high: Array) -> Array:
    raised = np.where(x < low, low, x)
    return np.where(raised > high, high, raised)


def _cast(symbol: Symbol, x: Array) -> Array:
    target, source = symbol.dtype, symbol.sources[0]
    if target is ir.DataType.BOOL:
        return x != 0
    if is_integer(target) and is_float(source):
        low, high = (float(target.min), float(target.max)) if target.bitwidth < 64 else (-(2.0**63), 2.0**63)
        whole = np.trunc(x.astype(np.float64))
        inside = (whole >= low) & (whole <= high) & (whole < 2.0**63)
        return np.where(inside, whole, 0).astype(np.int64)
    if is_float(target):
        return _rounded(symbol, x)
    return x


def _rounded(symbol: Symbol, x: Array) -> Array:
    target = symbol.dtype
    if symbol.params and symbol.params[0] and target.bitwidth == 8:
        limit = np.asarray(float(target.max), target.numpy())
        exact = x.astype(target.numpy())
        wide = x.astype(np.float64)
        over = np.abs(wide) > float(target.max)
        return np.where(over, np.copysign(limit.astype(np.float64), wide), exact.astype(np.float64))
    return x


def _shifted(symbol: Symbol, x: Array, by: Array) -> Array:
    width = symbol.dtype.bitwidth
    inside = by < width
    safe = np.where(inside, by, 0).astype(x.dtype)
    moved = np.left_shift(x, safe) if symbol.params[0] == "LEFT" else np.right_shift(x, safe)
    return np.where(inside, moved, np.where((x < 0) & (symbol.params[0] == "RIGHT"), -1, 0))


def _infinite(symbol: Symbol, x: Array) -> Array:
    negative, positive = symbol.params
    wide = x.astype(np.float64)
    return (wide == np.inf) & bool(positive) | (wide == -np.inf) & bool(negative)


def _sign(symbol: Symbol, x: Array) -> Array:
    return np.where(x != x, x, (x > 0).astype(np.int8) - (x < 0).astype(np.int8))


def _relu(_: Symbol, x: Array) -> Array:
    return np.where(x < 0, np.zeros_like(x), x)


def _where(_: Symbol, condition: Array, a: Array, b: Array) -> Array:
    return np.where(condition, a, b)


def _bitcast(symbol: Symbol, x: Array) -> Array:
    return x.view(symbol.dtype.numpy())


def _by_zero(symbol: Symbol, a: Array, b: Array) -> Array:
    return np.zeros((), bool) if is_float(symbol.dtype) else b == 0


def _remainder(symbol: Symbol, a: Array, b: Array) -> Array:
    """Remainders of floats that take the sign of the divisor, and of integers beyond doubles, are approximated."""
    if is_float(symbol.dtype):
        return np.asarray(not symbol.params[0])
    large = np.zeros((), bool)
    if symbol.params[0] and symbol.dtype.bitwidth == 64:
        large = reduce(np.logical_or, [np.abs(x.astype(np.float64)) >= 2.0**53 for x in (a, b)])
    return (b == 0) | large


def _sign_of_nan(symbol: Symbol, x: Array) -> Array:
    """ONNX Runtime returns zero for NaN of half precision."""
    return (x != x) if is_float(symbol.dtype) and symbol.dtype.bitwidth == 16 else np.zeros((), bool)


def _zero_of_where(symbol: Symbol, condition: Array, a: Array, b: Array) -> Array:
    """ONNX Runtime adds what is chosen to zeros, by place, which may lose the sign of a zero."""
    return np.where(condition, a, b) == 0 if is_float(symbol.dtype) else np.zeros((), bool)


def _zeros_tie(symbol: Symbol, *operands: Array) -> Array:
    """Runtimes decide between zeros of different sign by their places."""
    if not is_float(symbol.dtype):
        return np.zeros((), bool)
    signs = [np.signbit(x.astype(np.float64)) for x in operands]
    zeros = [x == 0 for x in operands]
    some = reduce(np.logical_or, [zero & sign for zero, sign in zip(zeros, signs, strict=True)])
    other = reduce(np.logical_or, [zero & ~sign for zero, sign in zip(zeros, signs, strict=True)])
    return some & other


def _out_of_range(symbol: Symbol, x: Array) -> Array:
    if symbol.dtype is ir.DataType.FLOAT8E8M0:
        return np.ones((), bool)
    if not is_float(symbol.sources[0]) or not is_integer(symbol.dtype):
        return np.zeros((), bool)
    wide = np.trunc(x.astype(np.float64))
    low, high = float(symbol.dtype.min), float(symbol.dtype.max)
    return ~((wide >= low) & (wide <= high)) | (wide >= 2.0**63)


_UNDEFINED = {
    "Div": _by_zero,
    "Mod": _remainder,
    "Max": _zeros_tie,
    "Min": _zeros_tie,
    "Cast": _out_of_range,
    "Where": _zero_of_where,
    "Sign": _sign_of_nan,
}

_UNARY: dict[str, Callable[[Array], Array]] = {
    "Neg": lambda x: -x,
    "Abs": np.abs,
    "Floor": np.floor,
    "Ceil": np.ceil,
    "Round": np.rint,
    "Sqrt": np.sqrt,
    "Not": np.logical_not,
    "BitwiseNot": np.invert,
    "IsNaN": lambda x: x != x,
    "Identity": lambda x: x,
}
_FOLDED: dict[str, Callable[[Array, Array], Array]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "And": np.logical_and,
    "Or": np.logical_or,
    "Xor": np.logical_xor,
    "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
    "Equal": lambda a, b: a == b,
    "Less": lambda a, b: a < b,
    "LessOrEqual": lambda a, b: a <= b,
    "Greater": lambda a, b: a > b,
    "GreaterOrEqual": lambda a, b: a >= b,
    "Max": lambda a, b: np.where((a != a) | (b != b), a + b, np.where(a < b, b, a)),
    "Min": lambda a, b: np.where((a != a) | (b != b), a + b, np.where(b < a, b, a)),
}
_WITH_SYMBOL: dict[str, Callable[..., Array]] = {
    "Div": _divided,
    "Mod": _modulo,
    "Sign": _sign,
    "Clip": _clipped,
    "Relu": _relu,
    "BitShift": _shifted,
    "Where": _where,
    "IsInf": _infinite,
    "Cast": _cast,
    "BitCast": _bitcast,
}


def _alone(function: Callable[[Array], Array]) -> Callable[..., Array]:
    def compute(symbol: Symbol, x: Array) -> Array:
        return function(x)

    return compute


def _one_by_one(function: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    def compute(symbol: Symbol, *operands: Array) -> Array:
        return reduce(function, operands)

    return compute


SCALARS.attach(
    {
        name: Scalar(function, undefined=_UNDEFINED.get(name))
        for name, function in {
            **{name: _alone(function) for name, function in _UNARY.items()},
            **{name: _one_by_one(function) for name, function in _FOLDED.items()},
            **_WITH_SYMBOL,
        }.items()
    }
)
