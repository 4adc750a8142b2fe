"""Values at which operators change their mind: bounds, limits, thresholds, ties, kinks, poles."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.constants import constant
from onnx_passes.graph.operators import Interface
from onnx_passes.graph.traits import traits_of
from onnx_passes.ops.definition import CONTRIBUTED_DOMAIN, GENERAL_DOMAINS
from onnx_passes.ops.facts.allowed_values import Array, broadcasts, grid_of
from onnx_passes.ops.multi_threshold import channel_axis

Critical = Callable[[ir.Node, int, int], Iterator[Array]]
"""Yields values of the input of a node at an index, where the rank of the input is as given."""
CRITICAL: Interface[Critical] = Interface(
    "critical", "the values of an input that it treats in their own way; those of quantizers are known by their levels"
)

_OVERFLOW = (100.0, -100.0)
"""Their exponentials overflow where the result is finite."""
_HALVES = np.arange(-53, 54) / 2
"""Integers and ties around zero, for what rounds; a few far ones come on top."""
_FAR = np.array([37.5, -60.5, 127.5, -128.5, 255.5, 1000.5, -4999.5])
_ROUNDED = [np.array(value) for value in (*_HALVES, *_FAR)]
_MOST = 4096


def critical_values(node: ir.Node, index: int, rank: int) -> list[Array]:
    """Return values of an input of a node, broadcast against it from the right, that are treated in their own way."""
    found = (CRITICAL.get(node) or _ties)(node, index, rank)
    return [array for array in found if array.size and np.isfinite(array).all()]


def _at(*values: float, any_input: bool = False) -> Critical:
    """Yield values that are special whatever the parameters are, of the first input or of any."""
    arrays = [np.array(value) for value in values]
    return lambda node, index, rank: iter(arrays if any_input or index == 0 else ())


def _first(found: Callable[[ir.Node], Iterator[Array]]) -> Critical:
    """Yield what is special of the first input, by the parameters of a node."""
    return lambda node, index, rank: found(node) if index == 0 else iter(())


def _others(node: ir.Node, index: int, rank: int) -> Iterator[Array]:
    """Yield the constants that an input is compared with."""
    others = [constant(value) for at, value in enumerate(node.inputs) if at != index]
    yield from (other for other in others if other is not None and other.size <= _MOST and other.dtype.kind in "fiu")


def _bounds(node: ir.Node) -> Iterator[Array]:
    for value in node.inputs[1:3]:
        bound = constant(value)
        if bound is not None:
            yield bound.reshape(())
    for name in ("min", "max"):
        if name in node.attributes:
            yield np.array(node.attributes.get_float(name, 0.0))


def _rounding(node: ir.Node) -> Iterator[Array]:
    if node.op_type == "Cast" and not ir.DataType(node.attributes.get_int("to", 0)).is_integer():
        return
    given = node.inputs[0].dtype if node.inputs[0] is not None else None
    if given is not None and not given.is_floating_point():
        return
    yield from _ROUNDED


def _alpha(node: ir.Node) -> Iterator[Array]:
    yield np.array(node.attributes.get_float("alpha", 1.0))


def _hard_sigmoid(node: ir.Node) -> Iterator[Array]:
    alpha, beta = node.attributes.get_float("alpha", 0.2), node.attributes.get_float("beta", 0.5)
    if alpha:
        yield from (np.array(-beta / alpha), np.array((1 - beta) / alpha))


def _shrink(node: ir.Node) -> Iterator[Array]:
    limit = node.attributes.get_float("lambd", 0.5)
    yield from (np.array(limit), np.array(-limit))


def _thresholds(node: ir.Node, index: int, rank: int) -> Iterator[Array]:
    """Yield the thresholds, one of every channel at a time, along the axis of channels."""
    steps = constant(node.inputs[1]) if index == 0 and len(node.inputs) > 1 else None
    if steps is None or steps.ndim != 2 or steps.size > _MOST * 16:
        return
    axis = channel_axis(node.attributes.get_string("data_layout", ""), rank)
    for step in steps.T:
        yield step.reshape([-1] + [1] * (rank - axis - 1) if step.size > 1 else ())


def _ties(node: ir.Node, index: int, rank: int) -> Iterator[Array]:
    """Yield the ties of a quantizer at its ends and around zero, and what lies beyond."""
    grid = grid_of(node, rank) if index == 0 else None
    if grid is None or not broadcasts(grid, np.broadcast(grid.scale, grid.zero).shape):
        return
    ends = (grid.low - 0.5, grid.low, grid.low + 0.5, grid.high - 0.5, grid.high, grid.high + 0.5, grid.high + 2.5)
    inside = [level for level in (-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 7.5) if grid.low < level < grid.high]
    for level in (*ends, *inside):
        place = (level - grid.zero) * grid.scale
        yield place.reshape(()) if place.size == 1 else place


_SATURATES = _at(*_OVERFLOW, 10.0, -10.0, 2.0, -2.0)
CRITICAL.attach(
    {
        **dict.fromkeys(("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Min", "Max"), _others),
        **dict.fromkeys(("Relu", "LeakyRelu", "PRelu", "Elu", "Selu", "Celu", "Abs", "Sign", "Log", "Sqrt"), _at(0.0)),
        **dict.fromkeys(("Add", "Div", "Mul", "Sub"), _at(0.0, any_input=True)),
        **dict.fromkeys(("Pow", "Reciprocal", "Softsign"), _at(0.0)),
        **dict.fromkeys(("Softplus", "Mish", "Swish"), _at(*_OVERFLOW, 30.0, -30.0, 0.0)),
        **dict.fromkeys(("Sigmoid", "Softmax", "LogSoftmax"), _at(*_OVERFLOW, 30.0, -30.0, 17.5, -17.5)),
        **dict.fromkeys(("Tanh", "Erf"), _SATURATES),
        **dict.fromkeys(("Round", "Floor", "Ceil", "Cast"), _first(_rounding)),
        "Clip": _first(_bounds),
        "Exp": _at(30.0, -30.0, 0.0),
        "HardSigmoid": _first(_hard_sigmoid),
        "HardSwish": _at(-3.0, 3.0),
        "Shrink": _first(_shrink),
        "ThresholdedRelu": _first(_alpha),
    }
)
CRITICAL.attach({"Gelu": _SATURATES}, domains=("", CONTRIBUTED_DOMAIN))
CRITICAL.attach({"BipolarQuant": _at(0.0), "MultiThreshold": _thresholds}, domains=GENERAL_DOMAINS)

_MOVES = frozenset({"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten"})
_STEPS = frozenset({"Round", "Floor", "Ceil", "Sign", "Not", "IsNaN", "IsInf"})
_WITH_CONSTANTS = frozenset({"Add", "Sub", "Mul", "Div", "Min", "Max", "Sum", "Pow", "PRelu", "Clip"})


def moves_elements(node: ir.Node) -> bool:
    """Return whether a standard operator only gives the elements of its first input other places."""
    return node.op_type in _MOVES


def is_continuous(node: ir.Node) -> bool:
    """Return whether every element of a result is a continuous function of one element and constants."""
    if node.op_type in _STEPS or traits_of(node).kind != "elementwise":
        return False
    return len(node.inputs) == 1 or node.op_type in _WITH_CONSTANTS
