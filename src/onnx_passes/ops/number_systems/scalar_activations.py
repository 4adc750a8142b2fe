"""Scalar functions with parameters or of approximated value: activations and transcendental functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.numbers.algebra import Symbol
from onnx_passes.ops.number_systems.scalars import SCALARS, Scalar

Array = np.ndarray[Any, Any]


def _number(symbol: Symbol, index: int, x: Array) -> Array:
    return np.asarray(symbol.params[index], np.float32).astype(x.dtype)


def _leaky(symbol: Symbol, x: Array) -> Array:
    return np.where(x < 0, _number(symbol, 0, x) * x, x)


def _shrink(symbol: Symbol, x: Array) -> Array:
    bias, lambd = (_number(symbol, index, x) for index in (0, 1))
    return np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, np.zeros_like(x)))


def _thresholded(symbol: Symbol, x: Array) -> Array:
    return np.where(x > _number(symbol, 0, x), x, np.zeros_like(x))


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _softplus(x: Array) -> Array:
    return np.logaddexp(0, x)


def _gelu(symbol: Symbol, x: Array) -> Array:
    if symbol.params[0] == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + _erf(x / math.sqrt(2)))


def _hard_sigmoid(symbol: Symbol, x: Array) -> Array:
    return np.clip(symbol.params[0] * x + symbol.params[1], 0, 1)


def _elu(symbol: Symbol, x: Array) -> Array:
    return np.where(x < 0, symbol.params[0] * np.expm1(x), x)


def _celu(symbol: Symbol, x: Array) -> Array:
    alpha = symbol.params[0]
    return np.maximum(x, 0) + np.minimum(0, alpha * np.expm1(x / alpha))


def _selu(symbol: Symbol, x: Array) -> Array:
    alpha, gamma = symbol.params
    return gamma * np.where(x <= 0, alpha * np.expm1(x), x)


def _swish(symbol: Symbol, x: Array) -> Array:
    return x * _sigmoid(symbol.params[0] * x)


def _sloped(_: Symbol, x: Array, slope: Array) -> Array:
    return np.where(x < 0, slope * x, x)


def _power(_: Symbol, a: Array, b: Array) -> Array:
    return np.power(a, b)


def _mean(_: Symbol, *operands: Array) -> Array:
    return np.add.reduce(operands) / len(operands)


def _normalized(symbol: Symbol, x: Array, scale: Array, bias: Array, mean: Array, variance: Array) -> Array:
    return (x - mean) / np.sqrt(variance + symbol.params[0]) * scale + bias


_PLAIN: dict[str, Callable[[Array], Array]] = {
    "Reciprocal": lambda x: 1 / x,
    "Exp": np.exp,
    "Log": np.log,
    "Erf": _erf,
    "Tanh": np.tanh,
    "Sin": np.sin,
    "Cos": np.cos,
    "Tan": np.tan,
    "Asin": np.arcsin,
    "Acos": np.arccos,
    "Atan": np.arctan,
    "Sinh": np.sinh,
    "Cosh": np.cosh,
    "Asinh": np.arcsinh,
    "Acosh": np.arccosh,
    "Atanh": np.arctanh,
    "Sigmoid": _sigmoid,
    "Softplus": _softplus,
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "Mish": lambda x: x * np.tanh(_softplus(x)),
    "HardSwish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
}
_WITH_SYMBOL: dict[str, Callable[..., Array]] = {
    "Pow": _power,
    "Elu": _elu,
    "Celu": _celu,
    "Selu": _selu,
    "Gelu": _gelu,
    "Swish": _swish,
    "HardSigmoid": _hard_sigmoid,
    "Mean": _mean,
    "BatchNormalization": _normalized,
}


def _wide(function: Callable[..., Array], *, takes_symbol: bool) -> Callable[..., Array]:
    """Compute in double precision, as functions are approximated anyway."""

    def compute(symbol: Symbol, *operands: Array) -> Array:
        wide = [operand.astype(np.float64) for operand in operands]
        return function(symbol, *wide) if takes_symbol else function(*wide)

    return compute


def _leaky_differs(symbol: Symbol, x: Array) -> Array:
    """Runtimes round slopes of half precision in different places, and some add the product to a zero."""
    if symbol.dtype not in (ir.DataType.FLOAT, ir.DataType.DOUBLE):
        return np.ones((), bool)
    return (x <= 0) & (_leaky(symbol, x) == 0)


def _sloped_differs(symbol: Symbol, x: Array, slope: Array) -> Array:
    """Runtimes choose the product or the operand where this is zero, and some add the product to a zero."""
    return (x == 0) | ((x < 0) & (slope * x == 0))


def _shrink_differs(symbol: Symbol, x: Array) -> Array:
    """ONNX Runtime computes all types in single precision."""
    return np.asarray(symbol.dtype is not ir.DataType.FLOAT)


def _power_overflows(symbol: Symbol, a: Array, b: Array) -> Array:
    """Powers of integers that are out of range."""
    if not symbol.dtype.is_integer():
        return np.zeros((), bool)
    found = np.power(a.astype(np.float64), b.astype(np.float64))
    return ~(np.abs(found) < 2.0 ** min(symbol.dtype.bitwidth - 1, 52))


_UNDEFINED = {"Pow": _power_overflows}


SCALARS.attach(
    {
        "LeakyRelu": Scalar(_leaky, undefined=_leaky_differs),
        "PRelu": Scalar(_sloped, undefined=_sloped_differs),
        "Shrink": Scalar(_shrink, undefined=_shrink_differs),
        "ThresholdedRelu": Scalar(_thresholded),
        **{name: Scalar(_wide(function, takes_symbol=False), settled=False) for name, function in _PLAIN.items()},
        **{
            name: Scalar(_wide(function, takes_symbol=True), settled=False, undefined=_UNDEFINED.get(name))
            for name, function in _WITH_SYMBOL.items()
        },
    }
)
