"""Laws of two consecutive reductions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.arguments import integer, reduced_axes
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.shapes import rank
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.laws import Law, LawPass, Vocabulary, When
from onnx_passes.rewrite.refusal import Answer, Refusal, Rewritten, no, yes

_CHOOSE = ("ReduceMax", "ReduceMin")
_COMPUTE = ("ReduceProd", "ReduceSum", "ReduceMean")
_AXES_ARE_INPUTS = {"ReduceSum": 13}


@dataclass(frozen=True)
class _Reduction:
    axes: frozenset[int]
    keeps: bool

    @staticmethod
    def of(node: ir.Node) -> _Reduction | None:
        """Return the reduction of a node; None if its rank or axes are unknown."""
        length, keeps, axes = rank(node.inputs[0]), integer(node, "keepdims", 1), reduced_axes(node)
        if length is None or keeps is None or axes is None:
            return None
        return _Reduction(frozenset(axis % length for axis in axes), bool(keeps))

    def then(self, outer: _Reduction, length: int) -> _Reduction | None:
        """Return the single reduction equal to ``self`` followed by ``outer``; None if there is none."""
        if self.keeps:
            merged = self.axes | outer.axes
            return _Reduction(merged, outer.keeps) if outer.keeps or self.axes <= outer.axes else None
        if outer.keeps and outer.axes:
            return None
        left = [axis for axis in range(length) if axis not in self.axes]
        return _Reduction(self.axes | {left[axis] for axis in outer.axes}, keeps=False)


def _merged(second: ir.Node, first: ir.Node) -> _Reduction | Refusal:
    before, after, length = _Reduction.of(first), _Reduction.of(second), rank(first.inputs[0])
    if before is None or after is None or length is None:
        return no("the axes are not known", at=second)
    merged = before.then(after, length)
    if merged is None or not merged.axes:
        return no("no single reduction keeps the same axes", at=second)
    return merged


def _can_merge(outer: ir.Node, inner: ir.Node) -> Answer:
    merged = _merged(outer, inner)
    return merged if isinstance(merged, Refusal) else yes


def _reduced_once(op: Builder, outer: ir.Node, inner: ir.Node) -> Rewritten:
    merged = _merged(outer, inner)
    if isinstance(merged, Refusal):
        return merged
    x, axes, keeps = inner.inputs[0], sorted(merged.axes), int(merged.keeps)
    if op.opset >= _AXES_ARE_INPUTS.get(outer.op_type, 18):
        return op.op(outer.op_type, x, np.array(axes, np.int64), keepdims=keeps)
    return op.op(outer.op_type, x, axes=axes, keepdims=keeps)


_law = Vocabulary(_can_merge, _reduced_once).law


def _laws(applies: str, names: Sequence[str]) -> Sequence[Law]:
    return tuple(
        _law(
            f"{f}(inner := {f}(x, ...), ...) → reduced_once(result, inner)",
            When(f"{applies}(x)", "another pass handles this type"),
            When("can_merge(result, inner)"),
        )
        for f in names
    )


@passes.verify.equality
@passes.register("algebraic")
class MergeReductions(LawPass):
    """Merge two consecutive ReduceMax, or ReduceMin, nodes of integers.

    Rewrites: ``ReduceMax(ReduceMax(x, a), b)`` → ``ReduceMax(x, a ∪ b)``, likewise ``ReduceMin``.
    Refuses:  floats; sums and products, which a runtime may compute as floats and round; unknown axes; reductions that
              differ in ``keepdims``, unless one of them removes no further axes; an inner result with other consumers.
    Exactness: bit-exact.
    """

    fuzz_hints = hints(dtypes=["int32", "int64", "int8"])
    laws = _laws("is_whole", _CHOOSE)


@passes.verify.tolerance
@passes.register("fast-math")
class MergeReductionsFast(LawPass):
    """Merge two consecutive reductions of floats.

    Rewrites: ``ReduceSum(ReduceSum(x, a), b)`` → ``ReduceSum(x, a ∪ b)``, likewise ``ReduceMax``, ``ReduceMin``,
              ``ReduceProd`` and ``ReduceMean``.
    Refuses:  axes and uses that ``merge-reductions`` refuses.
    Exactness: rounding; the order decides which NaN, which zero, and whether a partial sum overflows.
    """

    fast_math = ("nnan", "ninf", "nsz", "reassoc")
    fuzz_hints = hints(dtypes=["float32", "float64"])
    laws = _laws("is_float", (*_CHOOSE, *_COMPUTE))
