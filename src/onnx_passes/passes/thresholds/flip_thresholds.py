"""Negate channels so that decreasing thresholds become increasing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.analysis.ranges import ranges_of
from onnx_passes.numbers.range import Range
from onnx_passes.ops.definition import OUR_DOMAIN
from onnx_passes.passes.thresholds.nodes import Thresholds, integers, is_thresholds
from onnx_passes.passes.thresholds.search import Integers
from onnx_passes.passes.thresholds.signs import flipped_base, may_flip
from onnx_passes.passes.thresholds.tail import Tail
from onnx_passes.passes.thresholds.writing import Counting
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass

_RULE = "thresholds that step up"


@passes.verify.equality
@passes.register(tags=("thresholds", "quantized"))
class FlipThresholds(EditorPass):
    """Negate channels with decreasing thresholds, as QONNX only counts thresholds.

    Rewrites: ``onnx_passes.MultiThreshold(MatMul(x, w), [[1, 4], [2, 3]], [[1, 1], [-1, -1]])`` →
              ``onnx_passes.MultiThreshold(MatMul(x, w * [1, -1]), [[1, 4], [-2, -1]], [[1, 1], [1, 1]])``, with the
              initial level of each channel as an additional first step.
    Refuses:  channels that increase and decrease; inputs that are not a product of integers with constant weights, or
              have other consumers.
    Exactness: bit-exact.
    """

    needs = ("shape-inference",)

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Rewrite all weighted thresholds."""
        ranges: Mapping[ir.Value, Range] | None = None
        for node in tuple(model.graph):
            if not is_thresholds(node) or node.domain != OUR_DOMAIN or editor.stopped:
                continue
            ranges = ranges or ranges_of(model)
            _flip(editor, node, ranges)


def _flip(editor: Editor, node: ir.Node, ranges: Mapping[ir.Value, Range]) -> None:
    found = Thresholds.of(node)
    if isinstance(found, str):
        editor.refuse(_RULE, found, node)
        return
    tail = Tail((node,), (node.outputs[0],), (found.x,), found.axes)
    within = integers(ranges.get(found.x), found.places)
    steps = within if isinstance(within, str) else _steps(found, *within)
    if isinstance(steps, str) or isinstance(within, str):
        editor.refuse(_RULE, str(steps), node)
        return
    base = found.x.producer()
    if not may_flip(tail) or base is None:
        editor.refuse(_RULE, "its input is not a product with constant weights, or has other consumers", node)
        return
    with editor.rewrite(_RULE, node, matched=[base, node]) as r:
        turned = Counting(steps.rows, Integers(*within).mirrored(steps.falling), steps.falling)
        inputs = [flipped_base(r.op, tail, turned), found.shaped(steps.rows), found.shaped(steps.weights)]
        r.replace(node.outputs[0], r.op.like(node, inputs, out_bias=steps.bias))


@dataclass(frozen=True)
class _Steps:
    """Thresholds and heights of increasing steps, for an input with the ``falling`` channels negated."""

    rows: np.ndarray
    weights: np.ndarray
    bias: float
    falling: np.ndarray


def _steps(found: Thresholds, low: np.ndarray, high: np.ndarray) -> _Steps | str:
    """Return increasing steps, or the reason why that is impossible."""
    if found.is_growing or found.weights is None:
        return "no step decreases"
    if not found.is_in_integers:
        return "its levels are not integers"
    rows = np.ceil(np.where(np.isnan(found.rows), np.inf, found.rows)).astype(np.float64)
    weights = np.where(rows > high[:, None], 0, found.weights).astype(np.float64)
    start = np.where(rows <= low[:, None], weights, 0).sum(axis=1)
    weights = np.where(rows <= low[:, None], 0, weights)
    falling: np.ndarray = np.logical_and(weights.max(axis=1) <= 0, weights.min(axis=1) < 0)
    if not falling.any() or (weights[~falling] < 0).any():
        return "a channel increases and decreases"
    # q >= t holds unless -q >= 1 - t, for integers.
    rows = np.where(weights == 0, np.inf, np.where(falling[:, None], 1 - rows, rows))
    start += np.where(falling, weights.sum(axis=1), 0)
    first = np.full((len(rows), 1), -np.inf)
    rows = np.concatenate([first, rows], axis=1)
    weights = np.concatenate([(start - start.min())[:, None], np.abs(weights)], axis=1)
    return _Steps(rows.astype(np.float32), weights.astype(np.float32), float(found.bias + start.min()), falling)
