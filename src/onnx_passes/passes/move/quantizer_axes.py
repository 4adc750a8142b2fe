"""Move quantizers and thresholds before a transposition of their input."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant
from onnx_passes.graph.permutations import Permutation, inverse, permuted, untransposed
from onnx_passes.graph.shapes import dims, rank
from onnx_passes.ops.definition import GENERAL_DOMAINS, OUR_DOMAIN
from onnx_passes.ops.multi_threshold import channel_axis
from onnx_passes.passes.move.axes import AXES
from onnx_passes.passes.move.forms import shaped
from onnx_passes.passes.thresholds.nodes import Thresholds
from onnx_passes.passes.thresholds.writing import layout_of_channels
from onnx_passes.rewrite.refusal import Rewritten, no


def past_quantizer(op: Builder, node: ir.Node, x: ir.Value, perm: Permutation) -> Rewritten:
    """Build a quantizer on the untransposed input, with untransposed parameters."""
    given = [value for value in node.inputs[1:] if value is not None]
    if len(given) != len(node.inputs) - 1 or any((rank(value) or 0) > len(perm) for value in given):
        return no("a parameter is missing, or has a higher rank than the input", at=node)
    parameters = [untransposed(value, perm) for value in given]
    if any(value is None for value in parameters):
        return no("a parameter would have to be transposed", at=given[parameters.index(None)])
    return op.Transpose(_like(op.like(node, [x, *parameters]), node, perm), perm=perm)


def past_thresholds(op: Builder, node: ir.Node, x: ir.Value, perm: Permutation) -> Rewritten:
    """Build thresholds on the untransposed input, with their channels on the original axis."""
    found = Thresholds.of(node)
    if isinstance(found, str):
        return no(found, at=node)
    axes = {perm[axis]: size for axis, size in found.axes.items()}
    if node.domain == OUR_DOMAIN:
        back = inverse(perm)
        given = [_put_back(constant(value), back) for value in node.inputs[1:]]
        return op.Transpose(_like(op.like(node, [x, *given]), node, perm), perm=perm)
    layout = layout_of_channels(len(perm), axes or [perm[axis] for axis in _channels(node, len(perm))])
    if layout is None:
        return no("QONNX has no name for the layout before the transposition", at=node)
    counted = op.like(node, [x, node.inputs[1]], data_layout=layout)
    return op.Transpose(_like(counted, node, perm), perm=perm)


def _channels(node: ir.Node, length: int) -> list[int]:
    """Return the axis of channels in the layout of thresholds that all channels share."""
    axis = channel_axis(node.attributes.get_string("data_layout", ""), length)
    return [axis] if axis < length else []


def _put_back(array: np.ndarray | None, back: Permutation) -> np.ndarray:
    """Permute the axes before that of the thresholds."""
    assert array is not None
    more = len(back) + 1 - array.ndim
    return np.ascontiguousarray(array.reshape((1,) * more + array.shape).transpose([*back, len(back)]))


def _like(value: ir.Value, node: ir.Node, perm: Permutation) -> ir.Value:
    sizes = dims(node.outputs[0])
    value.type = node.outputs[0].type
    return shaped(value, None if sizes is None else permuted(sizes, inverse(perm)))


AXES.of("MultiThreshold", domains=(*GENERAL_DOMAINS, OUR_DOMAIN))(past_thresholds)
