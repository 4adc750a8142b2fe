"""What scalar functions and sums are in real numbers: rational functions, exponentials, and a few random ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from onnx_passes.proofs.algebra import Symbol
from onnx_passes.proofs.field import (
    PRIMES,
    REALS,
    SEQUENCES,
    Field,
    FieldRule,
    exponential,
    inverse,
    minus,
    number,
    oracle,
    plus,
    power,
    root,
    times,
)

Array = np.ndarray[Any, Any]

_SAYS_NOT_ZERO = "denominators are not zero"
_SAYS_NO_OVERFLOW = "integers do not overflow"


def _real(*names: str) -> Callable[[FieldRule], FieldRule]:
    def attach(rule: FieldRule) -> FieldRule:
        REALS.update(dict.fromkeys(names, rule))
        return rule

    return attach


def half(x: Array) -> Array:
    """Divide by two."""
    return times(x, number(0.5, x))


def one_plus(x: Array) -> Array:
    """Add one."""
    return plus(x, number(1.0, x))


def negative(x: Array) -> Array:
    """Negate."""
    return minus(np.zeros_like(x), x)


def absolute(x: Array) -> Array:
    """Return a random even function of a number, as which the absolute value is taken."""
    return oracle("Abs", [x])


def largest(a: Array, b: Array) -> Array:
    """Return ``(a + b + |a − b|) / 2``."""
    return half(plus(plus(a, b), absolute(minus(a, b))))


def smallest(a: Array, b: Array) -> Array:
    """Return ``(a + b − |a − b|) / 2``."""
    return half(minus(plus(a, b), absolute(minus(a, b))))


def sigmoid(field: Field, x: Array) -> Array:
    """Return ``1 / (1 + exp(−x))``."""
    return inverse(one_plus(exponential(field, negative(x))))


def tanh(field: Field, x: Array) -> Array:
    """Return ``1 − 2 / (1 + exp(2 x))``."""
    return minus(number(1.0, x), times(number(2.0, x), inverse(one_plus(exponential(field, plus(x, x))))))


def softplus(field: Field, x: Array) -> Array:
    """Return ``log(1 + exp(x))``."""
    return oracle("Log", [one_plus(exponential(field, x))])


def relu(x: Array) -> Array:
    """Return the larger of a number and zero."""
    return largest(x, np.zeros_like(x))


_UNARY: dict[str, Callable[[Field, Array], Array]] = {
    "Neg": lambda _, x: negative(x),
    "Abs": lambda _, x: absolute(x),
    "Identity": lambda _, x: x,
    "Not": lambda _, x: minus(number(1.0, x), x),
    "Relu": lambda _, x: relu(x),
    "Exp": exponential,
    "Sigmoid": sigmoid,
    "Tanh": tanh,
    "Softplus": softplus,
    "Sqrt": root,
    "Sinh": lambda field, x: half(minus(exponential(field, x), exponential(field, negative(x)))),
    "Cosh": lambda field, x: half(plus(exponential(field, x), exponential(field, negative(x)))),
    "Softsign": lambda _, x: times(x, inverse(one_plus(absolute(x)))),
    "Mish": lambda field, x: times(x, tanh(field, softplus(field, x))),
}
_FOLDED: dict[str, Callable[[Array, Array], Array]] = {
    "Add": plus,
    "Sub": minus,
    "Mul": times,
    "Max": largest,
    "Min": smallest,
    "And": times,
    "Or": lambda a, b: minus(plus(a, b), times(a, b)),
}


def _unary(function: Callable[[Field, Array], Array]) -> FieldRule:
    def rule(field: Field, symbol: Symbol, operands: list[Array]) -> Array:
        return function(field, operands[0])

    return rule


def _folded(function: Callable[[Array, Array], Array]) -> FieldRule:
    def rule(field: Field, symbol: Symbol, operands: list[Array]) -> Array:
        if symbol.dtype.is_integer():
            field.assumed.add(_SAYS_NO_OVERFLOW)
        return reduce(function, operands)

    return rule


REALS.update({name: _unary(function) for name, function in _UNARY.items()})
REALS.update({name: _folded(function) for name, function in _FOLDED.items()})


@_real("Where")
def _where(field: Field, symbol: Symbol, operands: list[Array]) -> Array:
    condition, a, b = operands
    return plus(b, times(condition, minus(a, b)))


@_real("Clip")
def _clip(field: Field, symbol: Symbol, operands: list[Array]) -> Array:
    x, low, high = operands
    return smallest(largest(x, low), high)


@_real("Div", "Reciprocal")
def _divided(field: Field, symbol: Symbol, operands: list[Array]) -> Array | None:
    if not symbol.dtype.is_floating_point():
        return None
    field.assumed.add(_SAYS_NOT_ZERO)
    found = inverse(operands[-1])
    return found if symbol.name == "Reciprocal" else times(operands[0], found)


@_real("Cast")
def _cast(field: Field, symbol: Symbol, operands: list[Array]) -> Array | None:
    """Keep a number that does not have to be cut to an integer."""
    source, target = symbol.sources[0], symbol.dtype
    if target.is_floating_point():
        return operands[0]
    widens = target.is_integer() and not source.is_floating_point() and source.bitwidth < target.bitwidth
    return operands[0] if widens else None


@_real("Pow")
def _pow(field: Field, symbol: Symbol, operands: list[Array]) -> Array | None:
    """Raise to small whole powers, and to halves of them; others are exponentials that nothing is known of."""
    base, exponent = operands
    if not symbol.dtype.is_floating_point():
        return None
    for whole in range(-4, 9):
        if np.array_equal(exponent, number(whole, exponent)):
            return power(base, whole) if whole >= 0 else inverse(power(base, -whole))
    if np.array_equal(exponent, number(0.5, exponent)):
        return root(field, base)
    return inverse(root(field, base)) if np.array_equal(exponent, number(-0.5, exponent)) else oracle(symbol, operands)


def _given(symbol: Symbol, index: int, x: Array) -> Array:
    return number(float(np.float32(symbol.params[index])), x)


@_real("LeakyRelu")
def _leaky(field: Field, symbol: Symbol, operands: list[Array]) -> Array:
    (x,) = operands
    zero = np.zeros_like(x)
    return plus(largest(x, zero), times(_given(symbol, 0, x), smallest(x, zero)))


@_real("PRelu")
def _sloped(field: Field, symbol: Symbol, operands: list[Array]) -> Array:
    x, slope = operands
    zero = np.zeros_like(x)
    return plus(largest(x, zero), times(slope, smallest(x, zero)))


@_real("HardSigmoid")
def _hard_sigmoid(field: Field, symbol: Symbol, operands: list[Array]) -> Array:
    (x,) = operands
    line = plus(times(_given(symbol, 0, x), x), _given(symbol, 1, x))
    return smallest(largest(line, np.zeros_like(x)), number(1.0, x))


@_real("HardSwish")
def _hard_swish(field: Field, symbol: Symbol, operands: list[Array]) -> Array:
    (x,) = operands
    line = times(plus(x, number(3.0, x)), inverse(number(6.0, x)))
    return times(x, smallest(largest(line, np.zeros_like(x)), number(1.0, x)))


@_real("Swish")
def _swish(field: Field, symbol: Symbol, operands: list[Array]) -> Array:
    (x,) = operands
    return times(x, sigmoid(field, times(_given(symbol, 0, x), x)))


@_real("Gelu")
def _gelu(field: Field, symbol: Symbol, operands: list[Array]) -> Array:
    (x,) = operands
    if symbol.params[0] == "tanh":
        inner = plus(x, times(number(0.044715, x), power(x, 3)))
        curve = tanh(field, times(number(math.sqrt(2 / math.pi), x), inner))
    else:
        curve = oracle("Erf", [times(x, number(math.sqrt(0.5), x))])
    return times(half(x), one_plus(curve))


@_real("Mean")
def _mean(field: Field, symbol: Symbol, operands: list[Array]) -> Array:
    return times(reduce(plus, operands), inverse(number(len(operands), operands[0])))


@_real("BatchNormalization")
def _normalized(field: Field, symbol: Symbol, operands: list[Array]) -> Array:
    x, scale, bias, mean, variance = operands
    field.assumed.add(_SAYS_NOT_ZERO)
    deviation = root(field, plus(variance, number(symbol.params[0], variance)))
    return plus(times(times(minus(x, mean), inverse(deviation)), scale), bias)


def _sum(rows: Array) -> Array:
    return rows.sum(-2, dtype=np.uint64) % PRIMES


def _of_sequence(*names: str) -> Callable[[FieldRule], FieldRule]:
    def attach(rule: FieldRule) -> FieldRule:
        SEQUENCES.update(dict.fromkeys(names, rule))
        return rule

    return attach


@_of_sequence("ReduceSum", "ReduceMean", "ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp")
def _reduced(field: Field, symbol: Symbol, operands: list[Array]) -> Array | None:
    (rows,) = operands
    if symbol.dtype.is_integer():
        field.assumed.add(_SAYS_NO_OVERFLOW)
        if symbol.name == "ReduceMean":
            return None
    if symbol.name in ("ReduceSumSquare", "ReduceL2"):
        rows = times(rows, rows)
    elif symbol.name == "ReduceL1":
        rows = absolute(rows)
    elif symbol.name == "ReduceLogSumExp":
        rows = exponential(field, rows)
    total = _sum(rows)
    if symbol.name == "ReduceMean":
        return times(total, inverse(number(rows.shape[-2], total)))
    if symbol.name == "ReduceL2":
        return root(field, total)
    return oracle("Log", [total]) if symbol.name in ("ReduceLogSum", "ReduceLogSumExp") else total


@_of_sequence("ReduceProd", "ReduceMax", "ReduceMin", "PoolMax")
def _one_by_one(field: Field, symbol: Symbol, operands: list[Array]) -> Array:
    """Combine the numbers of a sequence in an order that does not depend on where they are."""
    (rows,) = operands
    if symbol.name == "ReduceProd":
        return reduce(times, [rows[..., place, :] for place in range(rows.shape[-2])])
    order = np.argsort(rows[..., 0], axis=-1)
    rows = np.take_along_axis(rows, order[..., None], -2)
    function = smallest if symbol.name == "ReduceMin" else largest
    return reduce(function, [rows[..., place, :] for place in range(rows.shape[-2])])


@_of_sequence("Dot", "Gemm")
def _dot(field: Field, symbol: Symbol, operands: list[Array]) -> Array:
    left, right, *bias = operands
    if symbol.dtype.is_integer():
        field.assumed.add(_SAYS_NO_OVERFLOW)
    total = _sum(times(left, right))
    if symbol.params:
        total = times(number(symbol.params[0], total), total)
    for each in bias:
        total = plus(total, times(number(symbol.params[1], total), each[..., 0, :]))
    return total
