"""Turn channels around: minus in the weights that make them, minus in what follows."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.datatypes.smallest import smallest_for, smallest_for_values
from onnx_passes.graph.constants import constant
from onnx_passes.graph.names import Names
from onnx_passes.graph.tensor_types import datatype_of, set_datatype, set_sparsity, sparsity_of
from onnx_passes.passes.thresholds.search import Domain, Integers
from onnx_passes.passes.thresholds.tail import Tail


def may_flip(tail: Tail) -> bool:
    """Tell whether the tail is all that sees its base, and the base comes from constant weights of its channels."""
    node = tail.base.producer()
    return node is not None and tail.hides_base and _weight_axis(node, tail) is not None


def flip_channels(model: ir.Model, names: Names, tail: Tail, channels: np.ndarray, domain: Domain) -> None:
    """Negate channels of the base, which then is of the domain; the caller sees to it that the tail expects them so.

    The base gets another name: it no longer means what it did.
    """
    node = tail.base.producer()
    assert node is not None
    tail.base.name = names.value(f"{tail.base.name}_flipped")
    axis = _weight_axis(node, tail)
    assert axis is not None
    sign = np.where(channels, -1, 1).astype(np.float32)
    for index, along in ((1, axis), (2, 0)):
        value = node.inputs[index] if index < len(node.inputs) else None
        array = constant(value)
        if value is None or array is None:
            continue
        shape = [1] * array.ndim
        if sign.size > 1:
            shape[along] = sign.size
        # Adding 0 turns the zeros that became negative positive again.
        flipped = array * sign.reshape(shape) + np.float32(0)
        new = ir.Value(name=names.value(f"{value.name}_flipped"), const_value=ir.Tensor(flipped))
        new.type, new.shape = ir.TensorType(ir.DataType.from_numpy(flipped.dtype)), ir.Shape(flipped.shape)
        if datatype_of(value) is not None:
            set_datatype(new, smallest_for_values(flipped))
        set_sparsity(new, sparsity_of(value))
        model.graph.register_initializer(new)
        node.replace_input_with(index, new)
    if isinstance(domain, Integers) and datatype_of(tail.base) is not None:
        set_datatype(tail.base, smallest_for(int(domain.low.min()), int(domain.high.max())))


def _weight_axis(node: ir.Node, tail: Tail) -> int | None:
    """Return the axis of the weights that makes the channels."""
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
