"""Negate channels: in the weights that compute them, and in the following thresholds."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.datatypes.types import smallest_for, smallest_for_values
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant
from onnx_passes.graph.edits import carry_annotations, copy_type_and_shape
from onnx_passes.graph.tensor_types import datatype_of, set_datatype, set_sparsity, sparsity_of
from onnx_passes.passes.thresholds.search import Integers
from onnx_passes.passes.thresholds.tail import Tail
from onnx_passes.passes.thresholds.writing import Counting


def may_flip(tail: Tail) -> bool:
    """Return whether only the chain reads its base, and the base has constant weights for its channels."""
    node = tail.base.producer()
    return node is not None and tail.hides_base and _weight_axis(node, tail) is not None


def flipped_base(op: Builder, tail: Tail, found: Counting) -> ir.Value:
    """Build the base with the decreasing channels negated, as the thresholds expect it."""
    node, base, domain = tail.base.producer(), tail.base, found.domain
    assert node is not None
    assert found.falling is not None
    axis = _weight_axis(node, tail)
    assert axis is not None
    sign = np.where(found.falling, -1, 1).astype(np.float32)
    inputs = list(node.inputs)
    for index, along in ((1, axis), (2, 0)):
        value = inputs[index] if index < len(inputs) else None
        array = constant(value)
        if value is None or array is None:
            continue
        shape = [1] * array.ndim
        if sign.size > 1:
            shape[along] = sign.size
        # Adding 0 turns negative zeros positive.
        flipped = array * sign.reshape(shape) + np.float32(0)
        inputs[index] = new = op.initializer(flipped, f"{value.name}_flipped")
        if datatype_of(value) is not None:
            set_datatype(new, smallest_for_values(flipped))
        set_sparsity(new, sparsity_of(value))
    # The value has changed, and gets another name.
    attributes: dict[str, Any] = dict(node.attributes)
    made = op.op(node.op_type, *inputs, _outputs=[f"{base.name}_flipped"], _name=node.name, **attributes)
    copy_type_and_shape(base, made)
    carry_annotations(base, made)
    if isinstance(domain, Integers) and datatype_of(base) is not None:
        set_datatype(made, smallest_for(int(domain.low.min()), int(domain.high.max())))
    return made


def _weight_axis(node: ir.Node, tail: Tail) -> int | None:
    """Return the axis of the weights that indexes the channels; None if there is none."""
    weights = constant(node.inputs[1]) if len(node.inputs) > 1 else None
    if len(tail.axes) > 1:
        return None
    if weights is None or node.domain != "" or any(constant(value) is None for value in node.inputs[2:]):
        return None
    last = None if tail.base.shape is None else len(tail.base.shape) - 1
    if node.op_type == "MatMul" and weights.ndim == 2 and tail.axis in (None, last):
        return 1
    if node.op_type == "Conv" and tail.axis in (None, 1):
        return 0
    grouped = node.attributes.get_int("group", 1) != 1
    if node.op_type == "ConvTranspose" and tail.axis in (None, 1) and not grouped:
        return 1
    return None
