"""Values at which operators change their mind: bounds, limits, thresholds, ties, kinks, poles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.constants import constant
from onnx_passes.ops.multi_threshold import channel_axis
from onnx_passes.verify.samples.grids import broadcasts, grid_of
from onnx_passes.verify.samples.reference import Array

_COMPARES = frozenset({"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Min", "Max"})
_KINKS: Mapping[str, tuple[float, ...]] = {
    **dict.fromkeys(("Relu", "LeakyRelu", "PRelu", "Elu", "Selu", "Celu", "Abs", "Sign", "Log", "Sqrt"), (0.0,)),
    **dict.fromkeys(("Reciprocal", "Pow", "Div", "Sub", "Add", "Mul", "Softsign"), (0.0,)),
    "Exp": (30.0, -30.0, 0.0),
    **dict.fromkeys(("Softplus", "Mish", "Swish"), (100.0, -100.0, 30.0, -30.0, 0.0)),
    **dict.fromkeys(("Sigmoid", "Softmax", "LogSoftmax"), (100.0, -100.0, 30.0, -30.0, 17.5, -17.5)),
    **dict.fromkeys(("Tanh", "Erf", "Gelu"), (100.0, -100.0, 10.0, -10.0, 2.0, -2.0)),
    "HardSwish": (-3.0, 3.0),
    "BipolarQuant": (0.0,),
}
"""What is special whatever the parameters are: poles, and 100, whose exponential overflows, where the result is finite.
"""
_TAKES_ZERO = frozenset({"Div", "Sub", "Add", "Mul"})
_HALVES = np.arange(-53, 54) / 2
"""Integers and ties around zero, for what rounds; a few far ones come on top."""
_FAR = np.array([37.5, -60.5, 127.5, -128.5, 255.5, 1000.5, -4999.5])
_MOST = 4096


def critical_values(node: ir.Node, index: int, rank: int) -> list[Array]:
    """Return values of an input of a node, broadcast against it from the right, that are treated in their own way."""
    found = list(_found(node, index, rank))
    if (index == 0 or node.op_type in _TAKES_ZERO) and node.op_type in _KINKS:
        found += [np.array(value) for value in _KINKS[node.op_type]]
    return [array for array in found if array.size and np.isfinite(array).all()]


def _found(node: ir.Node, index: int, rank: int) -> Iterator[Array]:
    if node.domain == "" and node.op_type in _COMPARES:
        others = [constant(value) for at, value in enumerate(node.inputs) if at != index]
        yield from (
            other for other in others if other is not None and other.size <= _MOST and other.dtype.kind in "fiu"
        )
        return
    if index != 0:
        return
    of_kind = _OF_KIND.get(node.op_type) if node.domain == "" else None
    if of_kind is not None:
        yield from of_kind(node)
    elif node.op_type == "MultiThreshold":
        yield from _thresholds(node, rank)
    else:
        yield from _ties(node, rank)


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
    yield from (np.array(value) for value in (*_HALVES, *_FAR))


def _alpha(node: ir.Node) -> Iterator[Array]:
    yield np.array(node.attributes.get_float("alpha", 1.0))


def _hard_sigmoid(node: ir.Node) -> Iterator[Array]:
    alpha, beta = node.attributes.get_float("alpha", 0.2), node.attributes.get_float("beta", 0.5)
    if alpha:
        yield from (np.array(-beta / alpha), np.array((1 - beta) / alpha))


def _shrink(node: ir.Node) -> Iterator[Array]:
    limit = node.attributes.get_float("lambd", 0.5)
    yield from (np.array(limit), np.array(-limit))


def _thresholds(node: ir.Node, rank: int) -> Iterator[Array]:
    """Yield the thresholds, one of every channel at a time, along the axis of channels."""
    steps = constant(node.inputs[1]) if len(node.inputs) > 1 else None
    if steps is None or steps.ndim != 2 or steps.size > _MOST * 16:
        return
    axis = channel_axis(node.attributes.get_string("data_layout", ""), rank)
    for step in steps.T:
        yield step.reshape([-1] + [1] * (rank - axis - 1) if step.size > 1 else ())


def _ties(node: ir.Node, rank: int) -> Iterator[Array]:
    """Yield the ties of a quantizer at its ends and around zero, and what lies beyond."""
    grid = grid_of(node, rank)
    if grid is None or not broadcasts(grid, np.broadcast(grid.scale, grid.zero).shape):
        return
    ends = (grid.low - 0.5, grid.low, grid.low + 0.5, grid.high - 0.5, grid.high, grid.high + 0.5, grid.high + 2.5)
    inside = [level for level in (-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 7.5) if grid.low < level < grid.high]
    for level in (*ends, *inside):
        place = (level - grid.zero) * grid.scale
        yield place.reshape(()) if place.size == 1 else place


_OF_KIND: Mapping[str, Callable[[ir.Node], Iterator[Array]]] = {
    "Clip": _bounds,
    "Round": _rounding,
    "Floor": _rounding,
    "Ceil": _rounding,
    "Cast": _rounding,
    "ThresholdedRelu": _alpha,
    "HardSigmoid": _hard_sigmoid,
    "Shrink": _shrink,
}
