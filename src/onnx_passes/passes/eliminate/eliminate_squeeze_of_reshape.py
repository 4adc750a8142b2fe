"""Let a reshape do what a squeeze or unsqueeze behind it does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.arguments import integer, integers
from onnx_passes.passes.eliminate.forms import examples, merging
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import Refusal, no
from onnx_passes.rewrite.rule import Rule


@passes.verify.equality
@passes.register("eliminate")
class EliminateSqueezeOfReshape(Transformation, RewriteRuleSetPass):
    """Fold Squeeze and Unsqueeze nodes into the target of the Reshape before them.

    Rewrites: ``Unsqueeze(Reshape(x, [-1, 8]), [0])`` → ``Reshape(x, [1, -1, 8])``;
              ``Squeeze(Reshape(x, [-1, 1, 8]), [1])`` → ``Reshape(x, [-1, 8])``; ``Squeeze(Reshape(x, [1, 4, 8]))``
              → ``Reshape(x, [4, 8])``.
    Refuses:  targets or axes that are not constant; a Reshape that others read, too; a target that copies (``0``) a
              dimension whose place changes; axes that are not 1 in the target.
    Exactness: bit-exact.
    """

    fuzz_hints = examples(
        "g (float[2,6] x) => (float[1,3,4] y) <int64[2] s = {3, 4}, int64[1] a = {0}>"
        " { r = Reshape (x, s) y = Unsqueeze (r, a) }",
        "g (float[2,6] x) => (float[12] y) <int64[3] s = {1, -1, 1}, int64[2] a = {0, 2}>"
        " { r = Reshape (x, s) y = Squeeze (r, a) }",
        "g (float[2,6] x) => (float[12] y) <int64[3] s = {1, 12, 1}> { r = Reshape (x, s) y = Squeeze (r) }",
    )

    def rules(self) -> Sequence[Rule]:
        """Return one rule for each operator behind the Reshape."""
        return [
            merging("Unsqueeze", "Reshape", _unsqueeze, exclusive=True),
            merging("Squeeze", "Reshape", _squeeze, exclusive=True),
        ]


def _unsqueeze(op: Any, outer: ir.Node, inner: ir.Node) -> Any:
    found = _target_and_axes(outer, inner)
    if isinstance(found, Refusal):
        return found
    target, axes, allow_zero = found
    rank = len(target) + len(axes)
    places = {axis + rank if axis < 0 else axis for axis in axes}
    if len(places) != len(axes) or not places <= set(range(rank)):
        return no("the axes are not valid", at=outer)
    rest = iter(enumerate(target))
    moved: list[int] = []
    for place in range(rank):
        if place in places:
            moved.append(1)
            continue
        before, size = next(rest)
        if size == 0 and before != place and not allow_zero:
            return no("a copied dimension would change its place", at=inner)
        moved.append(size)
    return _reshape(op, inner, moved, allow_zero)


def _squeeze(op: Any, outer: ir.Node, inner: ir.Node) -> Any:
    found = _target_and_axes(outer, inner)
    if isinstance(found, Refusal):
        return found
    target, axes, allow_zero = found
    places = {axis + len(target) if axis < 0 else axis for axis in axes}
    if not all(0 <= place < len(target) and target[place] == 1 for place in places):
        return no("an axis to remove is not 1 in the target", at=inner)
    kept = [(place, size) for place, size in enumerate(target) if place not in places]
    if not allow_zero and any(size == 0 and place != now for now, (place, size) in enumerate(kept)):
        return no("a copied dimension would change its place", at=inner)
    return _reshape(op, inner, [size for _, size in kept], allow_zero)


def _target_and_axes(outer: ir.Node, inner: ir.Node) -> tuple[list[int], list[int], int] | Refusal:
    target, axes = integers(inner, 1), integers(outer, 1, "axes")
    allow_zero = integer(inner, "allowzero", 0)
    if target is None or allow_zero is None:
        return no("the target is not constant", at=inner)
    if axes is None and outer.op_type == "Squeeze" and _removes_all_ones(outer) and min(target, default=1) > 0:
        axes = [place for place, size in enumerate(target) if size == 1]
    if axes is None:
        return no("the axes are not constant", at=outer)
    return target, axes, allow_zero


def _removes_all_ones(squeeze: ir.Node) -> bool:
    return "axes" not in squeeze.attributes and (len(squeeze.inputs) < 2 or squeeze.inputs[1] is None)


def _reshape(op: Any, inner: ir.Node, target: list[int], allow_zero: int) -> ir.Value:
    shape = np.array(target, np.int64)
    x = inner.inputs[0]
    return op.Reshape(x, shape, allowzero=1) if allow_zero else op.Reshape(x, shape)
