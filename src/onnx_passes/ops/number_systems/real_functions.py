"""Functions of real numbers, one entry each, over any arithmetic: what scalar functions and sums are before rounding.

``RealAlgebra`` evaluates semantics of operators with them. An arithmetic decides what a real number is: an exact
number, an interval, a double with a bound of its error, a number modulo primes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.numbers.algebra import Algebra, Symbol
from onnx_passes.numbers.arithmetic import Arithmetic, UnknownOperatorError
from onnx_passes.numbers.reals import Reals
from onnx_passes.numbers.surds import square_root

A = Arithmetic[Any]
RealFunction = Callable[[A, Symbol, Sequence[Any]], Any]
"""Computes a function of operands that broadcast. Raises UnknownOperatorError where real numbers do not suffice."""
NOT_ZERO = "denominators are not zero"
NO_OVERFLOW = "integers do not overflow"
_ZERO, _HALF, _ONE = Fraction(0), Fraction(1, 2), Fraction(1)


def _float(value: float) -> Fraction:
    """Return the number that a float attribute of 32 bits holds."""
    return Fraction(float(np.float32(value)))


def _given(a: A, symbol: Symbol, index: int = 0) -> Any:
    return a.number(_float(symbol.params[index]))


def _parts(a: A, x: Any) -> tuple[Any, Any]:
    """Return the positive and the negative part of numbers."""
    zero = a.number(_ZERO)
    return a.greater(x, zero), a.lesser(x, zero)


def _between(a: A, x: Any) -> Any:
    return a.lesser(a.greater(x, a.number(_ZERO)), a.number(_ONE))


def _folded(function: Callable[[A, Any, Any], Any], *, overflows: bool = True) -> RealFunction:
    def compute(a: A, symbol: Symbol, operands: Sequence[Any]) -> Any:
        if overflows and symbol.dtype.is_integer():
            a.assume(NO_OVERFLOW)
        return reduce(lambda x, y: function(a, x, y), operands)

    return compute


def _unary(function: Callable[[A, Any], Any], *, overflows: bool = False) -> RealFunction:
    def compute(a: A, symbol: Symbol, operands: Sequence[Any]) -> Any:
        if overflows and symbol.dtype.is_integer():
            a.assume(NO_OVERFLOW)
        return function(a, operands[0])

    return compute


def _divided(a: A, symbol: Symbol, operands: Sequence[Any]) -> Any:
    if not symbol.dtype.is_floating_point():
        raise UnknownOperatorError("a quotient of integers is truncated")
    a.assume(NOT_ZERO)
    numerator = a.number(_ONE) if symbol.name == "Reciprocal" else operands[0]
    return numerator / operands[-1]


def _leaky(a: A, symbol: Symbol, operands: Sequence[Any]) -> Any:
    positive, negative = _parts(a, operands[0])
    return positive + (operands[1] if symbol.name == "PRelu" else _given(a, symbol)) * negative


def _exponential(a: A, x: Any, height: Fraction, width: Fraction) -> Any:
    positive, negative = _parts(a, x)
    return positive + a.number(height) * (a.growing("exp", negative * a.number(1 / width)) - a.number(_ONE))


def _elu(a: A, symbol: Symbol, operands: Sequence[Any]) -> Any:
    height = _float(symbol.params[0])
    return _exponential(a, operands[0], height, height if symbol.name == "Celu" else _ONE)


def _selu(a: A, symbol: Symbol, operands: Sequence[Any]) -> Any:
    return _given(a, symbol, 1) * _exponential(a, operands[0], _float(symbol.params[0]), _ONE)


def _hard_sigmoid(a: A, symbol: Symbol, operands: Sequence[Any]) -> Any:
    return _between(a, operands[0] * _given(a, symbol) + _given(a, symbol, 1))


def _hard_swish(a: A, x: Any) -> Any:
    return x * _between(a, x * a.number(Fraction(1, 6)) + a.number(_HALF))


def _swish(a: A, symbol: Symbol, operands: Sequence[Any]) -> Any:
    return operands[0] * a.growing("sigmoid", _given(a, symbol) * operands[0])


def _gelu(a: A, symbol: Symbol, operands: Sequence[Any]) -> Any:
    x, one = operands[0], a.number(_ONE)
    if symbol.params[0] != "tanh":
        return x * a.number(_HALF) * (one + a.growing("erf", x * a.number(square_root(_HALF))))
    inner = x + a.number(Fraction(0.044715)) * x * x * x
    return x * a.number(_HALF) * (one + a.growing("tanh", a.number(Fraction(math.sqrt(2 / math.pi))) * inner))


def _cosh(a: A, x: Any) -> Any:
    return (a.growing("exp", x) + a.growing("exp", -x)) * a.number(_HALF)


def _softsign(a: A, x: Any) -> Any:
    return x / (a.number(_ONE) + abs(x))


def _clip(a: A, symbol: Symbol, operands: Sequence[Any]) -> Any:
    x, low, high = operands
    return a.lesser(a.greater(x, low), high)


def _power(a: A, symbol: Symbol, operands: Sequence[Any]) -> Any:
    """Raise to small whole powers and to halves of them."""
    base, exponent = operands
    if not symbol.dtype.is_floating_point():
        raise UnknownOperatorError("powers of integers overflow")
    one = a.number(_ONE)
    for whole in range(-4, 9):
        if a.equals(exponent, Fraction(whole)):
            raised = reduce(lambda x, y: x * y, [base] * abs(whole), one)
            return raised if whole >= 0 else one / raised
    for sign in (1, -1):
        if a.equals(exponent, sign * _HALF):
            return a.root(base) if sign > 0 else one / a.root(base)
    return a.unknown(symbol, operands)


def _mean(a: A, symbol: Symbol, operands: Sequence[Any]) -> Any:
    return reduce(lambda x, y: x + y, operands) * a.number(Fraction(1, len(operands)))


def _cast(a: A, symbol: Symbol, operands: Sequence[Any]) -> Any:
    """Keep numbers that the target holds; of floats that become integers the fraction is dropped."""
    (x,), source, target = operands, symbol.sources[0], symbol.dtype
    if target is ir.DataType.BOOL:
        return a.number(_ONE) - a.reached(-abs(x), a.number(_ZERO), a.number(_ONE))
    if target.is_floating_point():
        return x
    widens = source.bitwidth < target.bitwidth and (target.is_signed() or not source.is_signed())
    if source.is_floating_point():
        x, widens = a.rounded("DOWN", x), False
    if not widens and not a.within(x, int(target.min), int(target.max)):
        raise UnknownOperatorError("a cast may be out of range")
    return x


def _at_least(a: A, x: Any, y: Any) -> Any:
    return a.reached(x, y, a.number(_ONE))


def _not(a: A, x: Any) -> Any:
    return a.number(_ONE) - x


def _where(a: A, symbol: Symbol, operands: Sequence[Any]) -> Any:
    return a.where(*operands)


def _sign(a: A, x: Any) -> Any:
    return _at_least(a, x, a.number(_ZERO)) - _at_least(a, -x, a.number(_ZERO))


def _growing(name: str) -> RealFunction:
    return lambda a, symbol, operands: a.growing(name, operands[0])


def _rounding(mode: str) -> RealFunction:
    return lambda a, symbol, operands: a.rounded(mode, operands[0])


ROUND_TO = "RoundTo"
"""Rounds to integers in the mode that is its parameter."""
REACHED = "Reached"
"""Returns a weight where a number has reached a threshold, and else zero."""
REAL_FUNCTIONS: dict[str, RealFunction] = {
    "Abs": _unary(lambda a, x: abs(x), overflows=True),
    "Add": _folded(lambda a, x, y: x + y),
    "And": _folded(lambda a, x, y: x * y),
    "Asinh": _growing("asinh"),
    "Atan": _growing("atan"),
    "Cast": _cast,
    "Ceil": _rounding("CEIL"),
    "Celu": _elu,
    "Clip": _clip,
    "Cosh": _unary(_cosh),
    "Div": _divided,
    "Elu": _elu,
    "Equal": _folded(lambda a, x, y: _at_least(a, x, y) * _at_least(a, y, x), overflows=False),
    "Erf": _growing("erf"),
    "Exp": _growing("exp"),
    "Floor": _rounding("FLOOR"),
    "Gelu": _gelu,
    "Greater": _folded(lambda a, x, y: _not(a, _at_least(a, y, x)), overflows=False),
    "GreaterOrEqual": _folded(_at_least, overflows=False),
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _unary(_hard_swish),
    "Identity": _unary(lambda a, x: x),
    "LeakyRelu": _leaky,
    "Less": _folded(lambda a, x, y: _not(a, _at_least(a, x, y)), overflows=False),
    "LessOrEqual": _folded(lambda a, x, y: _at_least(a, y, x), overflows=False),
    "Log": _unary(lambda a, x: a.smooth("Log", x)),
    "Max": _folded(lambda a, x, y: a.greater(x, y), overflows=False),
    "Mean": _mean,
    "Min": _folded(lambda a, x, y: a.lesser(x, y), overflows=False),
    "Mish": _unary(lambda a, x: x * a.growing("tanh", a.growing("softplus", x))),
    "Mul": _folded(lambda a, x, y: x * y),
    "Neg": _unary(lambda a, x: -x, overflows=True),
    "Not": _unary(_not),
    "Or": _folded(lambda a, x, y: x + y - x * y),
    "Pow": _power,
    "PRelu": _leaky,
    REACHED: lambda a, symbol, operands: a.reached(*operands),
    "Reciprocal": _divided,
    "Relu": _unary(lambda a, x: a.greater(x, a.number(_ZERO))),
    "Round": _rounding("ROUND"),
    ROUND_TO: lambda a, symbol, operands: a.rounded(symbol.params[0], operands[0]),
    "Selu": _selu,
    "Sigmoid": _growing("sigmoid"),
    "Sign": _unary(_sign),
    "Sinh": _growing("sinh"),
    "Softplus": _growing("softplus"),
    "Softsign": _unary(_softsign),
    "Sqrt": _unary(lambda a, x: a.root(x)),
    "Sub": _folded(lambda a, x, y: x - y),
    "Swish": _swish,
    "Tanh": _growing("tanh"),
    "Where": _where,
}


def _summed(a: A, symbol: Symbol, operands: Sequence[Any]) -> Any:
    (rows,), name = operands, symbol.name
    if symbol.dtype.is_integer():
        a.assume(NO_OVERFLOW)
        if name == "ReduceMean":
            raise UnknownOperatorError("a mean of integers is truncated")
    change = _BEFORE_SUM.get(name)
    total = a.total(rows if change is None else change(a, rows))
    if name == "ReduceMean":
        return total * a.number(Fraction(1, a.length(rows)))
    if name == "ReduceL2":
        return a.root(total)
    return a.smooth("Log", total) if name in ("ReduceLogSum", "ReduceLogSumExp") else total


_BEFORE_SUM: dict[str, Callable[[A, Any], Any]] = {
    "ReduceSumSquare": lambda a, rows: rows * rows,
    "ReduceL2": lambda a, rows: rows * rows,
    "ReduceL1": lambda a, rows: abs(rows),
    "ReduceLogSumExp": lambda a, rows: a.growing("exp", rows),
}


def _chosen(a: A, symbol: Symbol, operands: Sequence[Any]) -> Any:
    return a.extreme(operands[0], greatest=symbol.name != "ReduceMin")


def _multiplied(a: A, symbol: Symbol, operands: Sequence[Any]) -> Any:
    rows = operands[0]
    if symbol.dtype.is_integer():
        a.assume(NO_OVERFLOW)
    return reduce(lambda x, y: x * y, [a.at(rows, place) for place in range(a.length(rows))])


def _dot(a: A, symbol: Symbol, operands: Sequence[Any]) -> Any:
    left, right, *bias = operands
    if symbol.dtype.is_integer():
        a.assume(NO_OVERFLOW)
    total = a.dot(left, right)
    if symbol.params and symbol.params[0] != 1:
        total = total * _given(a, symbol)
    for each in bias:
        total = total + a.at(each, 0) * _given(a, symbol, 1)
    return total


REAL_SEQUENCES: dict[str, RealFunction] = {
    **dict.fromkeys(("ReduceSum", "ReduceMean", "ReduceSumSquare", "ReduceL1", "ReduceL2"), _summed),
    **dict.fromkeys(("ReduceLogSum", "ReduceLogSumExp"), _summed),
    **dict.fromkeys(("ReduceMax", "ReduceMin", "PoolMax"), _chosen),
    **dict.fromkeys(("Dot", "Gemm"), _dot),
    "ReduceProd": _multiplied,
}


class RealAlgebra(Algebra):
    """Elements are the real numbers of an arithmetic; what real numbers do not determine is refused."""

    exact = False
    decides = True
    most = 1 << 26

    def __init__(self, arithmetic: A) -> None:
        self.arithmetic = arithmetic

    def variable(self, name: str, dtype: ir.DataType, shape: Sequence[int]) -> np.ndarray:
        """Refuse: inputs have to be given."""
        raise UnknownOperatorError(f"'{name}' is not known")

    def constant(self, dtype: ir.DataType, array: np.ndarray) -> Any:
        """Return the numbers that the bits of a constant hold."""
        if array.dtype == object or not (array.dtype.kind in "biu" or np.isfinite(array.astype(np.float64)).all()):
            raise UnknownOperatorError("a constant holds no finite numbers")
        return self.arithmetic.of(Reals.of(array))

    def scalar(self, symbol: Symbol, operands: Sequence[Any]) -> Any:
        """Compute a function of numbers."""
        function = REAL_FUNCTIONS.get(symbol.name)
        if function is None:
            return self.arithmetic.unknown(symbol, operands)
        return function(self.arithmetic, symbol, operands)

    def sequence(self, symbol: Symbol, operands: Sequence[Any]) -> Any:
        """Compute a sum, a product or an extreme along the last axis."""
        function = REAL_SEQUENCES.get(symbol.name)
        if function is None:
            return self.arithmetic.unknown(symbol, operands)
        return function(self.arithmetic, symbol, operands)

    def opaque(self, symbol: Symbol, operands: Sequence[np.ndarray], shape: Sequence[int]) -> np.ndarray:
        """Refuse functions that nothing is known of."""
        raise UnknownOperatorError(f"{symbol.name} is not computed exactly")
