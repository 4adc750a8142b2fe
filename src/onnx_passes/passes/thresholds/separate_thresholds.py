"""Convert thresholds that vary along several axes to per-channel thresholds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.analysis.ranges import ranges_of
from onnx_passes.core.base import Context, PassResult, Transformation
from onnx_passes.core.options import internal
from onnx_passes.datatypes.base import EXACT_IN_FLOAT
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.shapes import dimension, rank
from onnx_passes.numbers.range import Range
from onnx_passes.ops.definition import OUR_DOMAIN
from onnx_passes.passes.thresholds.examples import several_axes
from onnx_passes.passes.thresholds.nodes import Thresholds, integers
from onnx_passes.passes.thresholds.writing import layout_of_channels
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRulePass
from onnx_passes.rewrite.patterns import Op, Var
from onnx_passes.rewrite.refusal import Refusal, no, yes


@passes.verify.equality
@passes.register(tags=("thresholds", "quantized"))
class SeparateThresholds(Transformation, RewriteRulePass):
    """Split thresholds that vary along several axes into per-channel thresholds, as in QONNX and FINN.

    Rewrites: ``MultiThreshold(q, T[l, c])`` → ``MultiThreshold(q + b[l, c], t)`` for integers q, if integers b and t
              with ``T = t - b`` exist within the range of q: thresholds that absorbed a positional embedding return it
              to an addition. Otherwise → ``Reshape(MultiThreshold(Reshape(x), T[l * c]))``, between Transposes if the
              axes are not the last ones.
    Refuses:  thresholds that vary along one axis with a layout in QONNX; tensors with several dynamic dimensions, or a
              dynamic one along which thresholds vary.
    Exactness: bit-exact.
    """

    needs = ("shape-inference",)
    followed_by = ("eliminate-transpose", "eliminate-reshape", "shape-inference")
    fuzz_hints: ClassVar[Mapping[str, Any]] = several_axes()

    _ranges: Mapping[ir.Value, Range] | None = internal(None)

    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Compute the ranges of inputs, then apply the rule."""
        wanted = any(node.domain == OUR_DOMAIN for node in model.graph)
        self._ranges = ranges_of(model) if wanted else None
        try:
            return super().run(model, context)
        finally:
            self._ranges = None

    def pattern(self, op: Op, x: Var, t: Var) -> Var:
        """Match thresholds with weights."""
        return op.MultiThreshold(x, t, _domain=OUR_DOMAIN, _allow_other_inputs=True, _outputs=["y"])

    def check(self, op: Match, y: ir.Value) -> Refusal | bool:
        """Refuse thresholds that are already per channel, or cannot become so."""
        node = y.producer()
        assert node is not None
        found = Thresholds.of(node)
        if isinstance(found, str):
            return no(found, at=y)
        axes, sizes = rank(found.x) or 0, [dimension(found.x, axis) for axis in range(rank(found.x) or 0)]
        if layout_of_channels(axes, found.axes) is not None or not found.axes:
            return no("its thresholds are already per channel", at=y)
        if any(sizes[axis] != size for axis, size in found.axes.items()):
            return no("its thresholds may change the shape of the result", at=y)
        return yes if sizes.count(None) <= 1 else no("several dimensions of its input are dynamic", at=y)

    def rewrite(self, op: Builder, y: ir.Value) -> ir.Value:
        """Add offsets if possible, or merge the axes into one."""
        node = y.producer()
        assert node is not None
        found = Thresholds.of(node)
        assert isinstance(found, Thresholds)
        offsets = self._offsets(found)
        if offsets is None:
            return _merged(op, found)
        moved = op.Add(found.x, offsets.added.astype(np.float32))
        return _counted(op, moved, found, offsets.thresholds.astype(np.float32))

    def _offsets(self, found: Thresholds) -> Offsets | None:
        known = None if self._ranges is None else self._ranges.get(found.x)
        within = integers(known, found.places)
        if isinstance(within, str) or (found.weights is not None and np.ptp(found.weights) > 0):
            return None
        channels = [axis for axis in found.axes if layout_of_channels(len(found.places), [axis]) is not None]
        return find_offsets(found.rows, found.places, *within, channels)


@dataclass(frozen=True)
class _Axes:
    """View of a tensor with all varying axes merged as the last: transposed by ``perm``, then reshaped to ``flat``."""

    perm: Sequence[int]
    shape: Sequence[int]
    flat: Sequence[int]

    @staticmethod
    def of(found: Thresholds) -> _Axes:
        differing = list(found.axes)
        others = [axis for axis in range(len(found.places)) if axis not in differing]
        perm = [*others, *differing]
        shape = [-1 if (size := dimension(found.x, axis)) is None else size for axis in perm]
        kept = shape[: len(others)]
        channels = math.prod(found.axes.values())
        named = layout_of_channels(len(kept) + 1, [len(kept)]) is not None
        return _Axes(perm, shape, [*kept, channels] if named else [-1, channels])


def _merged(op: Builder, found: Thresholds) -> ir.Value:
    """Build thresholds on a view with the varying axes merged as the last."""
    axes = _Axes.of(found)
    moves = list(axes.perm) != sorted(axes.perm)
    x = op.Transpose(found.x, perm=list(axes.perm)) if moves else found.x
    rows = np.ascontiguousarray(found.rows)
    counted = _counted(op, op.Reshape(x, np.array(axes.flat, np.int64)), found, rows, found.weights)
    shaped = op.Reshape(counted, np.array(axes.shape, np.int64))
    back = [axes.perm.index(axis) for axis in range(len(axes.perm))]
    return op.Transpose(shaped, perm=back) if moves else shaped


def _counted(
    op: Builder, x: ir.Value, found: Thresholds, thresholds: np.ndarray, weights: np.ndarray | None = None
) -> ir.Value:
    """Build thresholds with the same steps at other positions."""
    if found.weights is None:
        return op.MultiThreshold(x, thresholds, _domain=OUR_DOMAIN, out_bias=float(found.bias))
    if weights is None:
        weights = found.weights[:1, :1].reshape(1)
    given = np.ascontiguousarray(weights)
    return op.MultiThreshold(x, thresholds, given, _domain=OUR_DOMAIN, out_bias=float(found.bias))


_ROUNDS = 64
"""Solutions are found in a few rounds; searches that take longer are given up."""


@dataclass(frozen=True)
class Offsets:
    """The summand of x, and the remaining thresholds; both broadcast against x, thresholds with an extra last axis."""

    added: np.ndarray
    thresholds: np.ndarray


def find_offsets(
    rows: np.ndarray, places: tuple[int, ...], low: np.ndarray, high: np.ndarray, channels: Sequence[int]
) -> Offsets | None:
    """Find integer offsets after which all elements, or all of a channel, have the same thresholds.

    ``rows`` are the thresholds of each element, for integer inputs from ``low`` to ``high``; ``channels`` are the axes
    that may keep separate thresholds.
    """
    wanted = np.clip(np.ceil(np.sort(rows, axis=1)), low[:, None], high[:, None] + 1.0)
    # Thresholds that all integers reach, or none, may lie further outside.
    least = np.where(wanted <= low[:, None], -np.inf, wanted)
    most = np.where(wanted > high[:, None], np.inf, wanted)
    shape = (*places, rows.shape[1])
    for axis in (None, *channels):
        groups = 1 if axis is None else places[axis]
        ends = [_grouped(ends.reshape(shape), axis, groups) for ends in (least, most)]
        found = _solve(*ends)
        if found is not None:
            added, thresholds = found
            if max(np.abs(low).max(), np.abs(high).max()) + np.abs(added).max() > EXACT_IN_FLOAT:
                continue
            return Offsets(*_shaped(added, thresholds, places, axis))
    return None


def _grouped(ends: np.ndarray, axis: int | None, groups: int) -> np.ndarray:
    first = ends if axis is None else np.moveaxis(ends, axis, 0)
    return first.reshape(groups, -1, ends.shape[-1])


def _solve(least: np.ndarray, most: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Find b and t with ``least <= t - b <= most`` for each group, as a shortest-path problem; None if not found."""
    b, t = np.zeros(least.shape[:2]), np.zeros((least.shape[0], least.shape[2]))
    for _ in range(_ROUNDS):
        lower_t = np.minimum(t, (most + b[:, :, None]).min(axis=1))
        lower_b = np.minimum(b, (lower_t[:, None, :] - least).min(axis=2))
        if np.array_equal(lower_t, t) and np.array_equal(lower_b, b):
            middle = np.rint((b.min() + b.max()) / 2)
            return b - middle, t - middle
        b, t = lower_b, lower_t
    return None


def _shaped(
    added: np.ndarray, thresholds: np.ndarray, places: tuple[int, ...], axis: int | None
) -> tuple[np.ndarray, np.ndarray]:
    if axis is None:
        return added.reshape(places), thresholds.reshape(-1)
    others = [size for index, size in enumerate(places) if index != axis]
    moved = np.moveaxis(added.reshape(places[axis], *others), 0, axis)
    return moved, thresholds.reshape(places[axis], *[1] * (len(places) - axis - 1), -1)
