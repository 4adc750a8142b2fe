"""Levels of a fragment that ends with a quantizer, at chosen points, in real numbers, which floats round."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.fragment.fragment import Fragment
from onnx_passes.numbers.arithmetic import RealsArithmetic, UnknownOperatorError
from onnx_passes.numbers.reals import Reals
from onnx_passes.ops.quantizing import quantizer_of
from onnx_passes.ops.semantics.exact import apply
from onnx_passes.verify.proving.meanings import stands_for
from onnx_passes.verify.proving.pointwise import Pointwise


class NoMeaningError(Exception):
    """The levels of a fragment in real numbers are not known, for a reason."""


def levels_meant(found: Pointwise, side: Fragment, points: np.ndarray) -> np.ndarray:
    """Return the levels of points ``[channels, n]``. Raises NoMeaningError."""

    def by_channel(numbers: Reals) -> Reals:
        return numbers.spread(found.rank).moved(lambda places: np.broadcast_to(places, found.layout).reshape(-1, 1))

    arithmetic, computed = RealsArithmetic(by_channel), {side.inputs[0]: Reals.of(points.astype(np.float64))}
    try:
        for node in side.moving:
            _require_edges(node)
            computed[node.outputs[0]] = apply(arithmetic, node, computed, stands_for)
    except (UnknownOperatorError, ArithmeticError) as error:
        raise NoMeaningError(str(error)) from error
    whole = computed[side.outputs[0]].integers()
    if whole is None:
        raise NoMeaningError("the result is no integer")
    return whole


def _require_edges(node: ir.Node) -> None:
    """Refuse quantizers that do not say where their levels begin, such as those of many thresholds."""
    quantizer = quantizer_of(node)
    if quantizer is None:
        return
    levels = quantizer.levels(node)
    if isinstance(levels, str) or quantizer.edge(node, levels.high) is None:
        raise NoMeaningError(f"{node.op_type} does not say where its levels begin")
