"""Remove reshapes that keep the shape, and those that only feed another reshape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.arguments import argument, integer, integers
from onnx_passes.graph.shapes import dims, rank, same_dim, stays
from onnx_passes.passes.eliminate.forms import bypass, merging
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import no, yes
from onnx_passes.rewrite.rule import Rule

_KEEP_ORDER = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")


@passes.verify.equality
@passes.register("eliminate")
class EliminateReshape(Transformation, RewriteRuleSetPass):
    """Remove reshapes without effect, and those that another reshape makes redundant.

    Rewrites: ``Reshape(x, s)``, ``Flatten(x)`` → ``x``, if the shape stays: known numbers and named dimensions agree,
              or the target only copies dimensions and infers the last one;
              ``Reshape(f(x), s)`` → ``Reshape(x, s)`` for ``Reshape``, ``Flatten``, ``Squeeze``, ``Unsqueeze``.
    Refuses:  a target that copies (``0``) a dimension that is not known or is zero; targets that are computed and may
              hold zeros.
    Exactness: bit-exact.
    """

    needs = ("shape-inference",)

    def rules(self) -> Sequence[Rule]:
        """Return the rules for one node and for two."""
        return [
            bypass("Reshape", _keeps_shape),
            bypass("Flatten", _flattens_nothing),
            *(merging("Reshape", inner, _merge) for inner in _KEEP_ORDER),
        ]


def _keeps_shape(node: ir.Node) -> Any:
    x = node.inputs[0]
    if stays(node):
        return yes
    target, shape, allow_zero = integers(node, 1), dims(x), integer(node, "allowzero", 0)
    if target is None or shape is None or allow_zero is None:
        return no("the shapes are not known", at=node)
    if len(target) != len(shape):
        return no("the rank changes", at=node)
    changed = [
        size
        for size, dim in zip(target, shape, strict=True)
        if not (size == 0 and not allow_zero) and not (size == dim and dim != 0)
    ]
    return yes if changed in ([], [-1]) else no("the shape changes, or is not known", at=node)


def _flattens_nothing(node: ir.Node) -> Any:
    two_axes = rank(node.inputs[0]) == 2 and integer(node, "axis", 1) in (1, -1)
    return yes if two_axes else no("the shape changes, or is not known", at=node)


def _merge(op: Any, outer: ir.Node, inner: ir.Node) -> Any:
    x, shape = inner.inputs[0], argument(outer, 1)
    target, allow_zero = integers(outer, 1), integer(outer, "allowzero", 0)
    if allow_zero:
        return op.Reshape(x, shape, allowzero=1)
    if target is None or allow_zero is None:
        return no("the target is not constant and may copy dimensions", at=shape)
    if 0 not in target:
        return op.Reshape(x, shape)
    before, between = dims(x) or (), dims(outer.inputs[0])
    if between is None:
        return no("the copied dimensions are not known", at=outer.inputs[0])
    for axis in [axis for axis, size in enumerate(target) if size == 0]:
        dim = between[axis]
        if isinstance(dim, int) and dim > 0:
            target[axis] = dim
        elif axis >= len(before) or not same_dim(before[axis], dim):
            return no("the copied dimensions are not known", at=outer.inputs[0])
    return op.Reshape(x, np.array(target, np.int64))
