"""What operators mean that compute element by element, as functions of real numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any, cast

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.exact.arithmetic import Arithmetic, UnknownOperatorError, known
from onnx_passes.analysis.exact.reals import Reals
from onnx_passes.analysis.exact.surd import Number, square_root
from onnx_passes.graph.constants import constant
from onnx_passes.graph.operators import Interface
from onnx_passes.graph.shapes import rank
from onnx_passes.ops.collection import definition_of
from onnx_passes.ops.definition import GENERAL_DOMAINS, OUR_DOMAIN
from onnx_passes.ops.integer_range import bounds
from onnx_passes.ops.multi_threshold import channel_axis

Function = Callable[[Arithmetic[Any], ir.Node, Sequence[Any]], Any]
"""Computes with numbers of any arithmetic; inputs that are left out are none."""
FUNCTIONS: Interface[Function] = Interface("real_function", "what it computes of real numbers, element by element")


def apply(arithmetic: Arithmetic[Any], node: ir.Node, operands: Sequence[Any]) -> Any:
    """Compute the result of a node. Raises UnknownOperatorError, and ArithmeticError where there is none."""
    function = FUNCTIONS.get(node)
    if function is None:
        raise UnknownOperatorError(f"{node.op_type} is not computed exactly")
    return function(arithmetic, node, operands)


class Operands(Sequence[Any]):
    """The inputs of a node, each looked up when it is asked for: what is computed, or what a constant stands for."""

    def __init__(self, arithmetic: Arithmetic[Any], node: ir.Node, computed: Mapping[ir.Value, Any]) -> None:
        self._arithmetic = arithmetic
        self._inputs: Sequence[ir.Value | None] = node.inputs
        self._computed = computed

    def __len__(self) -> int:
        return len(self._inputs)

    def __getitem__(self, index: Any) -> Any:
        value = cast("ir.Value | None", self._inputs[index])
        if value is None or value in self._computed:
            return None if value is None else self._computed[value]
        return self._arithmetic.numbers(value)


def attribute(node: ir.Node, name: str, default: float) -> Fraction:
    """Return an attribute, which is a float of 32 bits."""
    return Fraction(float(np.float32(node.attributes.get_float(name, default))))


def _lesser(a: Arithmetic[Any], x: Any, y: Any) -> Any:
    return -a.greater(-x, -y)


def _batch_normalization(a: Arithmetic[Any], node: ir.Node, operands: Sequence[Any]) -> Any:
    if len(node.outputs) > 1 or node.attributes.get_int("training_mode", 0):
        raise UnknownOperatorError("BatchNormalization in training is not computed exactly")
    gamma, beta, mean, variance = (known(value) for value in node.inputs[1:5] if value is not None)
    shape = (-1, *(1,) * (_rank(node) - 2))
    spreads = variance + Reals.of(float(attribute(node, "epsilon", 1e-5)))
    if not (spreads.signs() > 0).all():
        raise ArithmeticError("it divides by the root of zero, or of less")
    factor = (gamma / spreads.root()).reshape(*shape)
    return (operands[0] - a.of(mean.reshape(*shape))) * a.of(factor) + a.of(beta.reshape(*shape))


def _clip(a: Arithmetic[Any], node: ir.Node, operands: Sequence[Any]) -> Any:
    x, low, high = (operands[index] if index < len(operands) else None for index in range(3))
    for name, end in (("min", 0), ("max", 1)):
        if name in node.attributes:
            number = a.number(attribute(node, name, 0.0))
            low, high = (number, high) if end == 0 else (low, number)
    x = x if low is None else a.greater(x, low)
    return x if high is None else _lesser(a, x, high)


def _relu(a: Arithmetic[Any], node: ir.Node, operands: Sequence[Any]) -> Any:
    return a.greater(operands[0], a.number(Fraction(0)))


def _parts(a: Arithmetic[Any], x: Any) -> tuple[Any, Any]:
    """Return what is positive of numbers, and what is negative."""
    zero = a.number(Fraction(0))
    return a.greater(x, zero), _lesser(a, x, zero)


def _leaky_relu(a: Arithmetic[Any], node: ir.Node, operands: Sequence[Any]) -> Any:
    positive, negative = _parts(a, operands[0])
    slope = operands[1] if len(operands) > 1 else a.number(attribute(node, "alpha", 0.01))
    return positive + slope * negative


def _elu(a: Arithmetic[Any], node: ir.Node, operands: Sequence[Any]) -> Any:
    return _exponential(a, operands[0], attribute(node, "alpha", 1.0), Fraction(1))


def _celu(a: Arithmetic[Any], node: ir.Node, operands: Sequence[Any]) -> Any:
    alpha = attribute(node, "alpha", 1.0)
    return _exponential(a, operands[0], alpha, alpha)


def _selu(a: Arithmetic[Any], node: ir.Node, operands: Sequence[Any]) -> Any:
    alpha = attribute(node, "alpha", 1.67326319217681884765625)
    gamma = attribute(node, "gamma", 1.05070102214813232421875)
    return a.number(gamma) * _exponential(a, operands[0], alpha, Fraction(1))


def _exponential(a: Arithmetic[Any], x: Any, height: Fraction, width: Fraction) -> Any:
    positive, negative = _parts(a, x)
    return positive + a.number(height) * (a.growing("exp", negative / a.number(width)) - a.number(Fraction(1)))


def _hard_sigmoid(a: Arithmetic[Any], node: ir.Node, operands: Sequence[Any]) -> Any:
    alpha, beta = attribute(node, "alpha", 0.2), attribute(node, "beta", 0.5)
    return _between(a, operands[0] * a.number(alpha) + a.number(beta))


def _hard_swish(a: Arithmetic[Any], node: ir.Node, operands: Sequence[Any]) -> Any:
    x = operands[0]
    return x * _between(a, x * a.number(Fraction(1, 6)) + a.number(Fraction(1, 2)))


def _between(a: Arithmetic[Any], x: Any) -> Any:
    return _lesser(a, a.greater(x, a.number(Fraction(0))), a.number(Fraction(1)))


def _gelu(a: Arithmetic[Any], node: ir.Node, operands: Sequence[Any]) -> Any:
    if node.attributes.get_string("approximate", "none") != "none":
        raise UnknownOperatorError("Gelu by approximation is not computed exactly")
    x, half = operands[0], a.number(Fraction(1, 2))
    return x * half * (a.number(Fraction(1)) + a.growing("erf", x * a.number(square_root(Fraction(1, 2)))))


def _softsign(a: Arithmetic[Any], node: ir.Node, operands: Sequence[Any]) -> Any:
    return operands[0] / (a.number(Fraction(1)) + abs(operands[0]))


def _growing(name: str) -> Function:
    return lambda a, node, operands: a.growing(name, operands[0])


def _rounding(mode: str) -> Function:
    return lambda a, node, operands: a.rounded(mode, operands[0])


def _greatest(a: Arithmetic[Any], node: ir.Node, operands: Sequence[Any]) -> Any:
    return reduce(a.greater, operands)


def _least(a: Arithmetic[Any], node: ir.Node, operands: Sequence[Any]) -> Any:
    return reduce(lambda x, y: _lesser(a, x, y), operands)


def _mean(a: Arithmetic[Any], node: ir.Node, operands: Sequence[Any]) -> Any:
    return reduce(lambda x, y: x + y, operands) * a.number(Fraction(1, len(operands)))


def _plain(a: Arithmetic[Any], array: np.ndarray) -> Any:
    return a.of(Reals.of(array))


def _held(node: ir.Node, index: int) -> np.ndarray:
    array = constant(node.inputs[index])
    if array is None:
        raise UnknownOperatorError(f"a parameter of {node.op_type} is computed")
    return array


def _quant(a: Arithmetic[Any], node: ir.Node, operands: Sequence[Any]) -> Any:
    x, scale, zero = (operands[index] for index in range(3))
    definition, bits = definition_of(node), _held(node, 3).astype(np.float64)
    assert definition is not None
    given = definition.checked(node)
    y = x / scale + zero
    if given["signed"] and (bits == 1).all():
        return (_sign(a, y) - zero) * scale
    if given["signed"] and (bits == 1).any():
        raise UnknownOperatorError("one bit in some channels is not computed exactly")
    low, high = bounds(bits, signed=bool(given["signed"]), narrow=bool(given["narrow"]))
    clamped = a.greater(_lesser(a, y, _plain(a, high)), _plain(a, low))
    return (a.rounded(given["rounding_mode"].upper(), clamped) - zero) * scale


def _sign(a: Arithmetic[Any], y: Any) -> Any:
    one = a.number(Fraction(1))
    return a.reached(y, a.number(Fraction(0)), one + one) - one


def _bipolar_quant(a: Arithmetic[Any], node: ir.Node, operands: Sequence[Any]) -> Any:
    return _sign(a, operands[0]) * operands[1]


def _trunc(a: Arithmetic[Any], node: ir.Node, operands: Sequence[Any]) -> Any:
    definition = definition_of(node)
    assert definition is not None
    given, (x, scale, zero) = definition.checked(node), (operands[index] for index in range(3))
    whole, mode = a.rounded("ROUND", x / scale + zero), given["rounding_mode"].upper()
    if len(node.inputs) < 6:
        factor = _plain(a, np.exp2(_held(node, 3).astype(np.float64) - _held(node, 4)))
        return (a.rounded(mode, whole / factor) - zero) * scale
    ratio = _held(node, 4).astype(np.float64) / _held(node, 1)
    factor, bits = _plain(a, np.exp2(np.rint(np.log2(ratio)))), _held(node, 5).astype(np.float64)
    low, high = bounds(bits, signed=bool(given["signed"]), narrow=bool(given["narrow"]))
    clamped = a.greater(_lesser(a, whole / factor, _plain(a, high)), _plain(a, low))
    return (a.rounded(mode, clamped) - zero / factor) * operands[4]


def _multi_threshold(a: Arithmetic[Any], node: ir.Node, operands: Sequence[Any]) -> Any:
    x, held, axes = operands[0], _held(node, 1), _rank(node)
    definition = definition_of(node)
    assert definition is not None
    given = definition.checked(node)
    weights = np.ones(1)
    if node.domain == OUR_DOMAIN:
        scale, shape = 1.0, held.shape[:-1]
        weights = weights if len(node.inputs) < 3 or node.inputs[2] is None else _held(node, 2)
    else:
        axis, scale = channel_axis(given["data_layout"], axes), given["out_scale"]
        shape = [1] * axes
        if len(held) > 1:
            shape[axis] = len(held)
    weights = np.broadcast_to(weights, (*weights.shape[:-1], held.shape[-1]))
    total = a.number(Fraction(0))
    for step in range(held.shape[-1]):
        limit = held[..., step].reshape(shape)
        if not np.isfinite(limit).all():
            raise UnknownOperatorError("thresholds that are infinite are not computed exactly")
        total = total + a.reached(x, _plain(a, limit), _plain(a, weights[..., step]))
    numbers: list[Number] = [Fraction(float(np.float32(number))) for number in (scale, given["out_bias"])]
    return total * a.number(numbers[0]) + a.number(numbers[1])


def _rank(node: ir.Node) -> int:
    length = rank(node.inputs[0])
    if length is None:
        raise UnknownOperatorError(f"the rank of what {node.op_type} reads is not known")
    return length


FUNCTIONS.attach(
    {
        "Abs": lambda a, node, operands: abs(operands[0]),
        "Add": lambda a, node, operands: operands[0] + operands[1],
        "Asinh": _growing("asinh"),
        "Atan": _growing("atan"),
        "BatchNormalization": _batch_normalization,
        "Ceil": _rounding("CEIL"),
        "Celu": _celu,
        "Clip": _clip,
        "Div": lambda a, node, operands: operands[0] / operands[1],
        "Elu": _elu,
        "Erf": _growing("erf"),
        "Exp": _growing("exp"),
        "Floor": _rounding("FLOOR"),
        "Gelu": _gelu,
        "HardSigmoid": _hard_sigmoid,
        "HardSwish": _hard_swish,
        "Identity": lambda a, node, operands: operands[0],
        "LeakyRelu": _leaky_relu,
        "Max": _greatest,
        "Mean": _mean,
        "Min": _least,
        "Mul": lambda a, node, operands: operands[0] * operands[1],
        "Neg": lambda a, node, operands: -operands[0],
        "PRelu": _leaky_relu,
        "Relu": _relu,
        "Round": _rounding("ROUND"),
        "Selu": _selu,
        "Sigmoid": _growing("sigmoid"),
        "Sinh": _growing("sinh"),
        "Softplus": _growing("softplus"),
        "Softsign": _softsign,
        "Sub": lambda a, node, operands: operands[0] - operands[1],
        "Sum": lambda a, node, operands: reduce(lambda x, y: x + y, operands),
        "Tanh": _growing("tanh"),
    }
)
FUNCTIONS.attach(
    {"BipolarQuant": _bipolar_quant, "IntQuant": _quant, "MultiThreshold": _multi_threshold, "Quant": _quant},
    domains=GENERAL_DOMAINS,
)
FUNCTIONS.attach({"Trunc": _trunc}, domains=GENERAL_DOMAINS)
