"""Decompose weighted thresholds into sums of unweighted ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.datatypes.types import smallest_for_values
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.shapes import dimension, rank
from onnx_passes.graph.tensor_types import set_datatype
from onnx_passes.ops.definition import OUR_DOMAIN
from onnx_passes.passes.thresholds.examples import examples
from onnx_passes.passes.thresholds.nodes import COUNTING_DOMAINS, Thresholds, level_values
from onnx_passes.passes.thresholds.writing import layout_of_channels
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRulePass
from onnx_passes.rewrite.patterns import Op, Var
from onnx_passes.rewrite.refusal import Refusal, no, yes

_MOST_STEPS = 2**16


@passes.verify.equality
@passes.register(tags=("thresholds", "quantized"))
class DecomposeThresholds(Transformation, RewriteRulePass):
    """Decompose weighted thresholds, which QONNX lacks: those of steps up minus those of steps down.

    Rewrites: ``onnx_passes.MultiThreshold(x, [1, 2, 3], [1, 2, -1])`` →
              ``MultiThreshold(x, [[1, 2, 2]]) - MultiThreshold(x, [[3]])``; channels with fewer steps than others get
              thresholds at infinity.
    Refuses:  thresholds that vary along several axes, or along one without a layout in QONNX (see separate-thresholds);
              weights that are not multiples of the smallest, or would give too many thresholds.
    Exactness: bit-exact for all but infinite inputs.
    """

    needs = ("shape-inference",)
    fuzz_hints: ClassVar[Mapping[str, Any]] = examples(counting=())
    fast_math = ("ninf", "nsz")

    def pattern(self, op: Op, x: Var, t: Var) -> Var:
        """Match thresholds with weights."""
        return op.MultiThreshold(x, t, _domain=OUR_DOMAIN, _allow_other_inputs=True, _outputs=["y"])

    def check(self, op: Match, x: ir.Value, y: ir.Value) -> Refusal | bool:
        """Refuse thresholds that QONNX cannot express."""
        parts = _parts(y)
        return no(parts, at=y) if isinstance(parts, str) else yes

    def rewrite(self, op: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
        """Build the thresholds of steps up, minus those of steps down."""
        parts = _parts(y)
        assert isinstance(parts, _Parts)

        def counted(rows: np.ndarray, bias: float) -> ir.Value:
            datatype = str(smallest_for_values(level_values(parts.unit, bias, rows.shape[1])))
            result = op.MultiThreshold(
                x,
                rows,
                _domain=COUNTING_DOMAINS[0],
                out_dtype=datatype,
                out_scale=parts.unit,
                out_bias=bias,
                data_layout=parts.layout,
            )
            result.type, result.shape = x.type, x.shape
            if parts.down is not None:
                set_datatype(result, datatype)
            return result

        if parts.down is None:
            assert parts.up is not None
            return counted(parts.up, parts.bias)
        down = counted(parts.down, 0.0)
        return op.Sub(np.float32(parts.bias) if parts.up is None else counted(parts.up, parts.bias), down)


@dataclass(frozen=True)
class _Parts:
    """Thresholds of steps up and of steps down, each of one unit height."""

    up: np.ndarray | None
    down: np.ndarray | None
    unit: float
    bias: float
    layout: str

    def results(self, points: np.ndarray) -> np.ndarray:
        """Compute the result of the built nodes for points of each row."""
        up, down = (_count(rows, points) for rows in (self.up, self.down))
        risen = np.float32(self.unit) * up + np.float32(self.bias)
        return risen if self.down is None else risen - np.float32(self.unit) * down


def _parts(y: ir.Value) -> _Parts | str:
    node = y.producer()
    assert node is not None
    found = Thresholds.of(node)
    if isinstance(found, str):
        return found
    layout = layout_of_channels(rank(found.x) or 0, found.axes)
    if layout is None:
        return "its thresholds vary along several axes, or one without a layout in QONNX"
    if any(dimension(found.x, axis) != size for axis, size in found.axes.items()):
        return "its thresholds may change the shape of the result"
    weights = np.ones(found.rows.shape, np.float32) if found.weights is None else found.weights
    heights = np.abs(weights[weights != 0])
    if heights.size == 0 or not np.isfinite(heights).all():
        return "it has no steps, or infinite ones"
    unit = np.float32(heights.min())
    steps = np.rint(weights / unit)
    if not np.array_equal((steps * unit).astype(np.float32), weights):
        return "its weights are not multiples of the smallest"
    if np.abs(steps).sum() > _MOST_STEPS:
        return "its weights make too many thresholds"
    up, down = (_repeated(found.rows, np.maximum(sign * steps, 0).astype(int)) for sign in (1, -1))
    parts = _Parts(up, down, float(unit), found.bias, layout)
    if not found.is_in_integers and not np.array_equal(parts.results(found.rows), _sums(found, weights)):
        return "its weights accumulate to other floats than their multiples"
    return parts


def _repeated(rows: np.ndarray, times: np.ndarray) -> np.ndarray | None:
    """Repeat each threshold by its number of steps, in order, padded with infinity."""
    times = np.where(np.isnan(rows), 0, times)
    width = int(times.sum(axis=1).max())
    if width == 0:
        return None
    result = np.full((len(rows), width), np.inf, np.float32)
    for index, (row, counts) in enumerate(zip(rows, times, strict=True)):
        repeated = np.sort(np.repeat(row, counts))
        result[index, : len(repeated)] = repeated
    return result


def _count(rows: np.ndarray | None, points: np.ndarray) -> np.ndarray:
    if rows is None:
        return np.zeros(points.shape, np.float32)
    return (points[:, :, None] >= rows[:, None, :]).sum(axis=2).astype(np.float32)


def _sums(found: Thresholds, weights: np.ndarray) -> np.ndarray:
    """Compute the result of the node at its own thresholds, added in the given order."""
    total = np.zeros(found.rows.shape, np.float32)
    for n in range(found.rows.shape[1]):
        total = total + np.where(found.rows >= found.rows[:, n : n + 1], weights[:, n : n + 1], np.float32(0))
    return total + np.float32(found.bias)
