"""Move operators that resize images before a transposition of their input."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.arguments import argument, integer, integers, is_given, text
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant
from onnx_passes.graph.permutations import Permutation, inverse, is_axis, permuted, transposed
from onnx_passes.passes.move.axes import AXES
from onnx_passes.rewrite.refusal import Rewritten, no

_REGION_COMES_FIRST = 11
"""The first opset in which Resize has a region of interest before its scales."""
_IMAGE = 4


def _resize(op: Builder, node: ir.Node, x: ir.Value, perm: Permutation) -> Rewritten:
    mode = text(node, "mode", "nearest")
    if mode is None or (mode == "linear" and len(perm) > _IMAGE) or mode == "cubic" or integer(node, "antialias", 0):
        return no("ONNX Runtime supports this mode only with channels first", at=node)
    if text(node, "coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize":
        return no("it crops", at=node)
    if "axes" in node.attributes:
        axes = integers(node, len(node.inputs), "axes")
        if axes is None or not all(is_axis(axis, len(perm)) for axis in axes):
            return no("the axes are not known", at=node)
        mapped = [perm[axis % len(perm)] for axis in axes]
        return transposed(op, op.like(node, [x, *node.inputs[1:]], axes=mapped), perm)
    given = list(node.inputs[1:])
    first = 0 if op.opset < _REGION_COMES_FIRST else 1
    for place in range(first, len(given)):
        given[place] = _put_back(op, given[place], perm)
    return transposed(op, op.like(node, [x, *given]), perm)


def _put_back(op: Builder, value: ir.Value | None, perm: Permutation) -> ir.Value | None:
    """Return a vector of one number per axis in the order before the transposition; empty vectors stay empty."""
    held = constant(value)
    if value is None or (held is not None and held.size != len(perm)):
        return value
    if held is None:
        return op.Gather(value, np.array(inverse(perm), np.int64))
    return op.initializer(np.array(permuted(list(held), inverse(perm)), held.dtype), value.name)


def _upsample(op: Builder, node: ir.Node, x: ir.Value, perm: Permutation) -> Rewritten:
    if text(node, "mode", "nearest") != "nearest" and len(perm) > _IMAGE:
        return no("ONNX Runtime supports this mode only with channels first", at=node)
    given = node.attributes.get("scales")
    if given is not None and not given.is_ref():
        return transposed(op, op.like(node, [x], scales=permuted(list(given.as_floats()), inverse(perm))), perm)
    if argument(node, 1) is None:
        return no("the scales are not known", at=node)
    return transposed(op, op.like(node, [x, _put_back(op, node.inputs[1], perm)]), perm)


def _tile(op: Builder, node: ir.Node, x: ir.Value, perm: Permutation) -> Rewritten:
    if not is_given(node, 1, ""):
        return no("the repeats are not known", at=node)
    return transposed(op, op.like(node, [x, _put_back(op, node.inputs[1], perm)]), perm)


def _dropout(op: Builder, node: ir.Node, x: ir.Value, perm: Permutation) -> Rewritten:
    if any(value.uses() or value.is_graph_output() for value in node.outputs[1:]):
        return no("the mask is used", at=node)
    training = argument(node, 2)
    if training is not None and constant(training) is None:
        return no("it may be in training mode", at=node)
    return transposed(op, op.like(node, [x, *node.inputs[1:]], _outputs=1), perm)


AXES.attach({"Dropout": _dropout, "Resize": _resize, "Tile": _tile, "Upsample": _upsample})
