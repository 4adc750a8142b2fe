"""Remove slices that take everything, and make one of two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.arguments import argument, integers, is_given
from onnx_passes.graph.shapes import dimension, rank, stays
from onnx_passes.passes.eliminate.forms import bypass, merging
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import Refusal, no, yes
from onnx_passes.rewrite.rule import Rule

_TO_THE_END = 2**31 - 1
"""What the standard recommends as the end of a dimension of unknown size, and more."""
_LARGEST = 2**63 - 1


@passes.verify.equality
@passes.register("eliminate")
class EliminateSlice(Transformation, RewriteRuleSetPass):
    """Remove slices that take everything, and merge consecutive ones.

    Rewrites: ``Slice(x, [0], [INT_MAX])`` → ``x``, and other ways to take everything forwards;
              ``Slice(Slice(x))`` → ``Slice(x)``, if no axis is cut twice, or both times forwards by steps of one.
    Refuses:  backwards slices of more than one element; arguments that are computed; the same axis twice, with steps
              or counted from an end that is not known.
    Exactness: bit-exact.
    """

    needs = ("shape-inference",)

    def rules(self) -> Sequence[Rule]:
        """Return the rules for one and for two."""
        return [bypass("Slice", _takes_everything), merging("Slice", "Slice", _merge)]


@dataclass(frozen=True)
class _Cut:
    start: int
    end: int
    step: int


def _cuts(node: ir.Node) -> dict[int, _Cut] | Refusal:
    """Return what is cut from each axis; axes are counted as in the node, or from the front if the rank is known."""
    starts, ends = integers(node, 1, "starts"), integers(node, 2, "ends")
    if starts is None or ends is None:
        return no("start or end is not constant", at=node)
    axes = integers(node, 3, "axes") if is_given(node, 3, "axes") else list(range(len(starts)))
    steps = integers(node, 4) if is_given(node, 4, "steps") else [1] * len(starts)
    if axes is None or steps is None:
        return no("axes or steps are not constant", at=node)
    length = rank(node.inputs[0])
    if length is None and any(axis < 0 for axis in axes):
        return no("an axis is counted from an unknown end", at=node)
    axes = [axis + (length or 0) if axis < 0 else axis for axis in axes]
    return {axis: _Cut(*cut) for axis, *cut in zip(axes, starts, ends, steps, strict=True)}


def _takes_everything(node: ir.Node) -> Any:
    steps = integers(node, 4) if is_given(node, 4, "steps") else [1]
    if steps is not None and all(step > 0 for step in steps) and stays(node):
        return yes
    cuts = _cuts(node)
    if isinstance(cuts, Refusal):
        return cuts
    for axis, cut in cuts.items():
        size = dimension(node.inputs[0], axis)
        if size is None:
            whole = (cut.start, cut.step) == (0, 1) and cut.end >= _TO_THE_END
        else:
            taken = len(range(*slice(cut.start, cut.end, cut.step).indices(size)))
            whole = taken == size and (cut.step == 1 or size <= 1)
        if not whole:
            return no("it leaves something out, or the size is not known", at=node)
    return yes


def _merge(op: Any, outer: ir.Node, inner: ir.Node) -> Any:
    first, second = _cuts(inner), _cuts(outer)
    if isinstance(first, Refusal) or isinstance(second, Refusal):
        return first if isinstance(first, Refusal) else second
    cuts = {**first, **second}
    for axis in first.keys() & second.keys():
        both = _both(first[axis], second[axis])
        if both is None:
            return no("an axis is cut twice, not simply forwards", at=outer)
        cuts[axis] = both
    axes = sorted(cuts)
    starts, ends = [cuts[axis].start for axis in axes], [cuts[axis].end for axis in axes]
    x = inner.inputs[0]
    if argument(outer, 1) is None:
        return op.Slice(x, starts=starts, ends=ends, axes=axes)
    steps = [cuts[axis].step for axis in axes]
    return op.Slice(x, *(np.array(numbers, np.int64) for numbers in (starts, ends, axes, steps)))


def _both(first: _Cut, second: _Cut) -> _Cut | None:
    """Cut the same axis twice, each time counting from the front."""
    if first.step != 1 or second.step != 1 or min(first.start, first.end, second.start, second.end) < 0:
        return None
    start = min(first.start + second.start, _LARGEST)
    return _Cut(start, min(first.end, first.start + second.end), 1)
