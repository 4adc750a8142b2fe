"""A-priori bounds of rounding: how far what a runtime computes may be from the real number, for inputs in a range.

Each term gets the interval of its real value and a bound of the error of its computed one (the standard model: every
operation rounds by at most one part in 2ᵖ⁺¹, sums of n numbers in any order by γₙ₋₁). Functions that are approximated
are taken to be within four units in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from onnx_passes.numbers.algebra import Symbol
from onnx_passes.ops.number_systems.terms import CONSTANT, Terms

_PRECISIONS = {ir.DataType.DOUBLE: 53, ir.DataType.FLOAT: 24, ir.DataType.FLOAT16: 11, ir.DataType.BFLOAT16: 8}
_APPROXIMATED = 8
"""Half units in the last place by which approximated functions may be off."""
_SLACK = 1 + 2.0**-40
"""What computing bounds in double precision may lose."""


class Bound(NamedTuple):
    """The least and greatest real value, and how far the computed one may be from it."""

    low: float
    high: float
    error: float = 0.0

    @property
    def size(self) -> float:
        """Return the greatest absolute value, computed ones included."""
        return max(abs(self.low), abs(self.high)) + self.error


class NoBoundError(Exception):
    """A function without a bound, or a denominator that may be zero."""


BoundRule = Callable[[Symbol, Sequence[Bound]], Bound]


def unit(dtype: ir.DataType) -> float:
    """Return the unit roundoff of a type."""
    if dtype not in _PRECISIONS:
        raise NoBoundError(str(dtype))
    return 2.0 ** -_PRECISIONS[dtype]


def bounds(terms: Terms, roots: Sequence[int], box: Mapping[int, tuple[float, float]]) -> dict[int, Bound]:
    """Bound terms, given the ranges of their variables. Raises NoBoundError."""
    found: dict[int, Bound] = {}
    for term in terms.below(*roots, leaves=box):
        symbol = terms.symbols[term]
        if term in box:
            found[term] = Bound(*box[term])
        elif symbol.name == CONSTANT:
            number = float(terms.constants[term]) if term in terms.constants else math.nan
            if not math.isfinite(number):
                raise NoBoundError("a constant that is not finite")
            found[term] = Bound(number, number)
        else:
            rule = _RULES.get(symbol.name)
            if rule is None or not symbol.dtype.is_floating_point():
                raise NoBoundError(symbol.name)
            made = rule(symbol, [found[arg] for arg in terms.args[term]])
            if not all(map(math.isfinite, made)):
                raise NoBoundError(symbol.name)
            found[term] = Bound(made.low, made.high, made.error * _SLACK)
    return found


def _rounded(symbol: Symbol, low: float, high: float, error: float, halves: float = 1.0) -> Bound:
    """Add the rounding of a result that was computed with some error."""
    u = unit(symbol.dtype) * halves
    tiny = float(np.finfo(np.float64).tiny) if symbol.dtype is ir.DataType.DOUBLE else 2.0**-149
    return Bound(low, high, error + u * (max(abs(low), abs(high)) + error) + tiny)


def _add(symbol: Symbol, operands: Sequence[Bound]) -> Bound:
    a, b = operands
    return _rounded(symbol, a.low + b.low, a.high + b.high, a.error + b.error)


def _product(a: Bound, b: Bound) -> Bound:
    corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    size_a, size_b = max(abs(a.low), abs(a.high)), max(abs(b.low), abs(b.high))
    return Bound(min(corners), max(corners), size_a * b.error + size_b * a.error + a.error * b.error)


def _mul(symbol: Symbol, operands: Sequence[Bound]) -> Bound:
    return _rounded(symbol, *_product(*operands))


def _reciprocal(b: Bound) -> Bound:
    if b.low - b.error <= 0 <= b.high + b.error:
        raise NoBoundError("a denominator that may be zero")
    least = min(abs(b.low), abs(b.high))
    low, high = sorted((1 / b.low, 1 / b.high))
    return Bound(low, high, b.error / (least * (least - b.error)))


def _div(symbol: Symbol, operands: Sequence[Bound]) -> Bound:
    return _rounded(symbol, *_product(operands[0], _reciprocal(operands[1])))


def _neg(symbol: Symbol, operands: Sequence[Bound]) -> Bound:
    (x,) = operands
    return Bound(-x.high, -x.low, x.error)


def _summed(symbol: Symbol, operands: Sequence[Bound], *, more: int = 0) -> Bound:
    """Add numbers in any order, with or without rounding products before."""
    amount, u = len(operands) + more, unit(symbol.dtype)
    if amount * u >= 1:
        raise NoBoundError("a sum too long for its type")
    gamma = amount * u / (1 - amount * u)
    error = sum(x.error for x in operands)
    size = sum(x.size for x in operands)
    return Bound(sum(x.low for x in operands), sum(x.high for x in operands), error + gamma * size + 2.0**-149)


def _mean(symbol: Symbol, operands: Sequence[Bound]) -> Bound:
    total, amount = _summed(symbol, operands), len(operands)
    return _rounded(symbol, total.low / amount, total.high / amount, total.error / amount, 2)


def _gemm(symbol: Symbol, operands: Sequence[Bound]) -> Bound:
    alpha, beta, biased = symbol.params
    factors = [Bound(beta, beta)] * biased + [Bound(alpha, alpha)] * (len(operands) - biased)
    return _summed(symbol, [_product(f, x) for f, x in zip(factors, operands, strict=True)], more=4)


def _absolute(symbol: Symbol, operands: Sequence[Bound]) -> Bound:
    (x,) = operands
    low = 0.0 if x.low <= 0 <= x.high else min(abs(x.low), abs(x.high))
    return Bound(low, max(abs(x.low), abs(x.high)), x.error)


def _relu(symbol: Symbol, operands: Sequence[Bound]) -> Bound:
    (x,) = operands
    return Bound(max(x.low, 0.0), max(x.high, 0.0), x.error)


def _max(symbol: Symbol, operands: Sequence[Bound]) -> Bound:
    return Bound(max(x.low for x in operands), max(x.high for x in operands), max(x.error for x in operands))


def _min(symbol: Symbol, operands: Sequence[Bound]) -> Bound:
    return Bound(min(x.low for x in operands), min(x.high for x in operands), max(x.error for x in operands))


def _clip(symbol: Symbol, operands: Sequence[Bound]) -> Bound:
    x, low, high = operands
    return _min(symbol, [_max(symbol, [x, low]), high])


def _cast(symbol: Symbol, operands: Sequence[Bound]) -> Bound:
    if not symbol.sources[0].is_floating_point():
        raise NoBoundError("a cast from integers")
    return _rounded(symbol, *operands[0])


def _sqrt(symbol: Symbol, operands: Sequence[Bound]) -> Bound:
    (x,) = operands
    if x.low - x.error <= 0:
        raise NoBoundError("the root of what may be zero")
    return _rounded(symbol, math.sqrt(x.low), math.sqrt(x.high), x.error / (2 * math.sqrt(x.low - x.error)))


def _smooth(function: Callable[[float], float], slope: float) -> BoundRule:
    """Bound a function that grows, at most by a slope."""

    def rule(symbol: Symbol, operands: Sequence[Bound]) -> Bound:
        (x,) = operands
        return _rounded(symbol, function(x.low), function(x.high), slope * x.error, _APPROXIMATED)

    return rule


def _exp(symbol: Symbol, operands: Sequence[Bound]) -> Bound:
    (x,) = operands
    if x.high + x.error > 80:
        raise NoBoundError("a large exponential")
    top = math.exp(x.high + x.error)
    return _rounded(symbol, math.exp(x.low), math.exp(x.high), top * x.error, _APPROXIMATED)


def _normalized(symbol: Symbol, operands: Sequence[Bound]) -> Bound:
    x, scale, bias, mean, variance = operands
    shifted = Bound(variance.low + symbol.params[0], variance.high + symbol.params[0], variance.error)
    deviation = _reciprocal(_sqrt(symbol, [_rounded(symbol, *shifted)]))
    centred = _add(symbol, [x, _neg(symbol, [mean])])
    scaled = _mul(symbol, [_mul(symbol, [centred, _rounded(symbol, *deviation)]), scale])
    # Runtimes merge the constants beforehand, which rounds in other places.
    merged = _add(
        symbol,
        [
            _mul(symbol, [x, scaled_by(symbol, scale, deviation)]),
            _mul(symbol, [mean, scaled_by(symbol, scale, deviation)]),
        ],
    )
    total = _add(symbol, [scaled, bias])
    return Bound(total.low, total.high, max(total.error, merged.error + unit(symbol.dtype) * (merged.size + bias.size)))


def scaled_by(symbol: Symbol, scale: Bound, deviation: Bound) -> Bound:
    """Return a scale over a deviation, rounded."""
    return _rounded(symbol, *_product(scale, deviation))


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


_RULES: dict[str, BoundRule] = {
    "Add": _add,
    "Mul": _mul,
    "Product": lambda symbol, operands: _product(*operands),
    "Div": _div,
    "Neg": _neg,
    "Reciprocal": lambda symbol, operands: _rounded(symbol, *_reciprocal(operands[0]), 4),
    "Dot": lambda symbol, operands: _summed(symbol, operands, more=1),
    "Gemm": _gemm,
    "ReduceSum": _summed,
    "ReduceMean": _mean,
    "Mean": _mean,
    "Abs": _absolute,
    "Relu": _relu,
    "Max": _max,
    "Min": _min,
    "Clip": _clip,
    "ReduceMax": _max,
    "PoolMax": _max,
    "ReduceMin": _min,
    "Cast": _cast,
    "Sqrt": _sqrt,
    "Exp": _exp,
    "Sigmoid": _smooth(_sigmoid, 0.25),
    "Tanh": _smooth(math.tanh, 1.0),
    "Erf": _smooth(math.erf, 1.1284),
    "BatchNormalization": _normalized,
}
