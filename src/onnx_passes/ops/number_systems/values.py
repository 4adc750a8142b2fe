"""Compute terms on numbers, in their true types: to look for inputs on which two of them differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, cast

import ml_dtypes
import numpy as np
import onnx_ir as ir

from onnx_passes.numbers.algebra import Symbol
from onnx_passes.ops.number_systems import scalars
from onnx_passes.ops.number_systems.rings import POLYNOMIAL
from onnx_passes.ops.number_systems.terms import CONSTANT, Terms

Array = np.ndarray[Any, Any]


class NoValueError(Exception):
    """A term contains a function that nothing is known of."""


@dataclass
class Values:
    """What terms are for many inputs at once; where runtimes may differ, ``undefined`` says so.

    ``settled`` tells that every function in them is rounded correctly, so that a difference is one everywhere.
    """

    of: dict[int, Array]
    undefined: Array
    settled: bool


def has_value(terms: Terms, term: int) -> bool:
    """Tell whether there is a number for a term once there are numbers for its operands."""
    symbol = terms.symbols[term]
    if symbol.name == CONSTANT:
        return term in terms.constants
    return symbol.name in _SPECIAL or scalars.is_known(symbol)


def compute(terms: Terms, roots: Sequence[int], variables: Mapping[int, Array]) -> Values:
    """Compute terms, given arrays of equal length for their variables. Raises NoValueError."""
    amount = len(next(iter(variables.values()))) if variables else 1
    found = Values({}, np.zeros(amount, bool), True)
    for term in terms.below(*roots, leaves=variables):
        symbol = terms.symbols[term]
        if term in variables:
            found.of[term] = variables[term]
        elif symbol.name == CONSTANT:
            if term not in terms.constants:
                raise NoValueError(symbol.name)
            found.of[term] = np.broadcast_to(terms.constants[term], amount)
        else:
            operands = [found.of[arg] for arg in terms.args[term]]
            found.of[term] = _applied(symbol, operands, found)
    return found


def _applied(symbol: Symbol, operands: list[Array], found: Values) -> Array:
    special = _SPECIAL.get(symbol.name)
    if special is not None:
        found.settled &= symbol.name == POLYNOMIAL or symbol.dtype.is_integer()
        found.undefined |= _saturated(symbol, operands)
        with np.errstate(all="ignore"):
            return special(symbol, operands).astype(symbol.dtype.numpy(), copy=False)
    try:
        result = scalars.compute(symbol, operands)
    except (KeyError, TypeError) as error:
        raise NoValueError(symbol.name) from error
    found.settled &= scalars.is_settled(symbol)
    found.undefined |= scalars.undefined(symbol, operands)
    return result


def _saturated(symbol: Symbol, operands: list[Array]) -> Array | bool:
    """Return where a reduction of integers overflows or exceeds 2⁵³: ONNX Runtime saturates, and rounds to doubles."""
    is_sum = symbol.name.startswith("Reduce") and symbol.name not in ("ReduceMax", "ReduceMin")
    if not is_sum or not symbol.dtype.is_integer():
        return False
    power = 2 if symbol.name in ("ReduceL2", "ReduceSumSquare") else 1
    sizes = [np.abs(operand.astype(np.float64)) ** power for operand in operands]
    largest = np.multiply.reduce(np.maximum(sizes, 1)) if symbol.name == "ReduceProd" else np.add.reduce(sizes)
    return largest > min(float(symbol.dtype.max), 2.0**53)


def _polynomial(symbol: Symbol, operands: list[Array]) -> Array:
    total: Array = np.zeros(len(operands[0]), np.uint64)
    wide: list[Array] = [
        operand.astype(np.int64).view(np.uint64) if symbol.dtype.is_signed() else operand.astype(np.uint64)
        for operand in operands
    ]
    amount = len(operands[0])
    for coefficient, places in symbol.params:
        product: Array = np.full(amount, coefficient, np.uint64)
        for place in cast("tuple[int, ...]", places):
            np.multiply(product, wide[place], out=product)
        np.add(total, product, out=total)
    return _wrapped(total, symbol.dtype)


def _wrapped(total: Array, dtype: ir.DataType) -> Array:
    """Keep the last bits of numbers."""
    width = dtype.bitwidth
    if width in (8, 16, 32, 64):
        return total.astype(f"u{width // 8}").view(dtype.numpy())
    low = total & np.uint64((1 << width) - 1)
    if dtype.is_signed():
        return np.where(low >= 1 << (width - 1), low.astype(np.int64) - (1 << width), low.astype(np.int64))
    return low


def _summed(symbol: Symbol, operands: list[Array]) -> Array:
    total = operands[0]
    for operand in operands[1:]:
        total = (total + operand).astype(symbol.dtype.numpy(), copy=False)
    return total


def _mean(symbol: Symbol, operands: list[Array]) -> Array:
    return _summed(symbol, operands) / np.asarray(len(operands), symbol.dtype.numpy())


def _gemm(symbol: Symbol, operands: list[Array]) -> Array:
    if len(symbol.params) != 3:
        raise NoValueError("Gemm of integers with factors")
    alpha, beta, biased = symbol.params
    kind = symbol.dtype.numpy()
    total = np.asarray(alpha).astype(kind) * _summed(symbol, operands[biased:])
    return total + np.asarray(beta).astype(kind) * operands[0] if biased else total


def _greater(a: Array, b: Array) -> Array:
    """Compare as ONNX Runtime reduces: a NaN that comes later is passed over."""
    return np.where(a < b, b, a)


def _least(array: Array) -> float:
    """Return the number that ONNX Runtime begins a maximum of windows with: of float32 the least finite one."""
    return float(cast(Any, ml_dtypes).finfo(array.dtype).min) if array.dtype == np.float32 else -np.inf


_SPECIAL: dict[str, Callable[[Symbol, list[Array]], Array]] = {
    POLYNOMIAL: _polynomial,
    "Product": lambda _, operands: operands[0] * operands[1],
    "Dot": _summed,
    "Gemm": _gemm,
    "ReduceSum": _summed,
    "ReduceMean": _mean,
    "ReduceProd": lambda _, operands: np.multiply.reduce(operands),
    "ReduceMax": lambda _, operands: reduce(_greater, operands),
    "ReduceMin": lambda _, operands: reduce(lambda a, b: np.where(b < a, b, a), operands),
    "PoolMax": lambda _, operands: reduce(_greater, operands, np.full_like(operands[0], _least(operands[0]))),
    "ReduceL1": lambda s, operands: _summed(s, [np.abs(x) for x in operands]),
    "ReduceL2": lambda s, operands: np.sqrt(_summed(s, [x * x for x in operands])),
    "ReduceSumSquare": lambda s, operands: _summed(s, [x * x for x in operands]),
}


def same(a: Array, b: Array) -> Array:
    """Tell where numbers are the same bit by bit, all NaN being one."""
    with np.errstate(all="ignore"):
        equal = (a == b) | ((a != a) & (b != b))
        if a.dtype.kind in "biu":
            return equal
        return equal & ((a != 0) | (np.signbit(a.astype(np.float64)) == np.signbit(b.astype(np.float64))))
