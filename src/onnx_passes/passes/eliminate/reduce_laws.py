"""Laws of reductions over axes of size one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.arguments import integer, reduced_axes
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.shapes import dimension, rank
from onnx_passes.rewrite.laws import Law, LawPass, Vocabulary
from onnx_passes.rewrite.refusal import Rewritten, no

_OF_ONE_IS_ITSELF = ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum")
_AXES_ARE_INPUTS = 13
_EXACT_IN_DOUBLE = 32
_ADD_TO_ZERO = ("ReduceMean", "ReduceSum")
"""Reductions for which ONNX Runtime, depending on the layout, turns a single ``-0.0`` into ``0.0``."""


def _unreduced(op: Builder, x: ir.Value, node: ir.Node, signs_matter: bool) -> Rewritten:
    axes = reduced_axes(node)
    if axes is None:
        return no("the axes are not known", at=node)
    if any(dimension(x, axis) != 1 for axis in axes):
        return no("an axis is not known to have one element", at=node)
    if x.dtype is None or (x.dtype.is_integer() and x.dtype.bitwidth > _EXACT_IN_DOUBLE and _adds(node)):
        return no("ONNX Runtime computes it in doubles", at=node)
    copies = not axes and bool(rank(x))
    if signs_matter and x.dtype.is_floating_point() and node.op_type in _ADD_TO_ZERO and not copies:
        return no("the sign of a zero may change", at=node)
    if not axes or integer(node, "keepdims", 1) == 1:
        return x
    if op.opset < _AXES_ARE_INPUTS:
        return op.Squeeze(x, axes=axes)
    return op.Squeeze(x, np.array(axes, np.int64))


def _adds(node: ir.Node) -> bool:
    return node.op_type not in ("ReduceMax", "ReduceMin")


_law = Vocabulary(_unreduced).law


def _laws(*, signs_matter: bool) -> Sequence[Law]:
    """Build a law for each reduction; refuse floats for which the sign of a zero may change, if it matters."""
    return tuple(_law(f"{f}(x, ...) → unreduced(x, result, {signs_matter})") for f in _OF_ONE_IS_ITSELF)


@passes.verify.equality
@passes.register("eliminate")
class EliminateReduce(LawPass):
    """Remove reductions over axes of size one, or over no axes.

    Rewrites: ``ReduceSum(x)``, likewise ``ReduceMax``, ``ReduceMean``, ``ReduceMin``, ``ReduceProd`` → ``x``, or
              ``Squeeze(x)`` if the axes are not kept.
    Refuses:  axes that are computed, or whose size is not known to be one; norms and logarithms, which change even a
              single element; all but ``ReduceMax`` and ``ReduceMin`` of 64-bit integers, which ONNX Runtime rounds;
              sums and means of floats over axes, which turn ``-0.0`` into ``0.0`` (``eliminate-reduce-of-floats``
              accepts that).
    Exactness: bit-exact.
    """

    laws = _laws(signs_matter=True)


@passes.verify.tolerance
@passes.register("fast-math")
class EliminateReduceOfFloats(LawPass):
    """Remove reductions over axes of size one, or over no axes, of any type.

    Rewrites: ``ReduceSum(x)``, likewise ``ReduceMax``, ``ReduceMean``, ``ReduceMin``, ``ReduceProd`` → ``x``, or
              ``Squeeze(x)`` if the axes are not kept.
    Refuses:  axes that are computed, or whose size is not known to be one; norms and logarithms, which change even a
              single element; all but ``ReduceMax`` and ``ReduceMin`` of 64-bit integers, which ONNX Runtime rounds.
    Exactness:exact by the standard; ONNX Runtime may turn ``-0.0`` into ``0.0`` in a sum, so that signs of zeros may
              differ from those of the original.
    """

    fast_math = ("nsz",)
    laws = _laws(signs_matter=False)
