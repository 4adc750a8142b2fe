"""Evaluate a tail on chosen points as the function of real numbers that it means."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.exact.arithmetic import Arithmetic, ExactArithmetic, IntervalArithmetic, Intervals
from onnx_passes.analysis.exact.arrays import exactly
from onnx_passes.analysis.exact.functions import Operands, apply
from onnx_passes.passes.thresholds.levels import Levels
from onnx_passes.passes.thresholds.tail import Tail


class RealEvaluator:
    """Tells on which level of a tail points of a channel are: by intervals of doubles, and exactly where these doubt.

    Raises UnknownOperatorError where an operator is not known, ArithmeticError where a number has no bounds.
    """

    def __init__(self, tail: Tail, levels: Levels) -> None:
        self._tail = tail
        self._levels = levels
        self._layout = tail.layout
        self(np.zeros((tail.channels, 1), np.float32))

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Return the levels of points of shape ``[channels, n]``, by number."""
        wide = points.astype(np.float64).reshape(*self._layout, -1)
        with np.errstate(all="ignore"):
            found = self._run(IntervalArithmetic(), Intervals(wide, wide))
            ends = [np.rint((end - self._levels.bias) / self._levels.scale) for end in (found.low, found.high)]
        low, high = (np.broadcast_to(end, wide.shape).reshape(points.shape) for end in ends)
        doubts = ~(low == high)
        places = np.where(doubts, 0, low).astype(np.int64)
        for channel in np.flatnonzero(doubts.any(axis=1)):
            places[channel, doubts[channel]] = self._exact(int(channel), points[channel, doubts[channel]])
        return places

    def _exact(self, channel: int, points: np.ndarray) -> list[int]:
        arithmetic = ExactArithmetic(tuple(int(at) for at in np.unravel_index(channel, self._layout or (1,))))
        results = self._run(arithmetic, exactly(points))
        bias, scale = Fraction(float(self._levels.bias)), Fraction(float(self._levels.scale))
        return [round((number - bias) / scale) for number in np.broadcast_to(results, points.shape)]

    def _run(self, arithmetic: Arithmetic[Any], points: Any) -> Any:
        computed: dict[ir.Value, Any] = {self._tail.base: points}
        for node in self._tail.nodes:
            computed[node.outputs[0]] = apply(arithmetic, node, Operands(arithmetic, node, computed))
        return computed[self._tail.result]
