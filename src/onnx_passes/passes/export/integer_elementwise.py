"""Integer sums, maxima and movements."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import rank, static_shape
from onnx_passes.ops.facts.sums import size_of
from onnx_passes.passes.export.integer_twins import IntegerTwins
from onnx_passes.passes.integers.containers import FLOATS, SMALL, bounds_of, container, largest_in

_INT32 = ir.DataType.INT32
_NO_INTEGERS = "not all of its inputs are integers"


def arithmetic(twins: IntegerTwins, node: ir.Node) -> ir.Value | str:
    """Add, subtract or multiply in 32 bits."""
    a, b = node.inputs
    assert a is not None
    assert b is not None
    left, right = twins.bounds(a), twins.bounds(b)
    if left is None or right is None:
        return _NO_INTEGERS
    if node.op_type == "Mul":
        largest = size_of(left) * size_of(right)
        # Zero times a negative number is a negative zero, which integers do not have.
        if (left[0] < 0 and right[0] <= 0 <= right[1]) or (right[0] < 0 and left[0] <= 0 <= left[1]):
            return "a zero may get a sign"
    else:
        largest = size_of(left) + size_of(right)
    if largest > largest_in(node.outputs[0].dtype):
        return "its results may be integers that floats round, or beyond 32 bits"
    return twins.op.op(node.op_type, twins.integer(a, (_INT32,)), twins.integer(b, (_INT32,)))


def cast(twins: IntegerTwins, node: ir.Node) -> ir.Value | str:
    """Keep the integers, regardless of the float type that held them: doubles convert to float as integers do."""
    x = node.inputs[0]
    assert x is not None
    if x.dtype not in FLOATS:
        return _NO_INTEGERS
    integer = twins.integer(x)
    return _NO_INTEGERS if integer is None else integer


def relu(twins: IntegerTwins, node: ir.Node) -> ir.Value | str:
    """Compute the maximum of an integer and zero."""
    x = node.inputs[0]
    assert x is not None
    integer = twins.integer(x, (_INT32,))
    return _NO_INTEGERS if integer is None else twins.op.Max(integer, np.zeros((), np.int32))


def max_pool(twins: IntegerTwins, node: ir.Node) -> ir.Value | str:
    """Pool maxima, which the operator supports for eight bits only."""
    x = node.inputs[0]
    assert x is not None
    if len(node.outputs) > 1:
        return "it also returns indices"
    if twins.bounds(x) is None:
        return _NO_INTEGERS
    integer = twins.integer(x, SMALL)
    if integer is None:
        return "no runtime pools integers of more than eight bits"
    return twins.op.MaxPool(integer, **node.attributes)


def reduce_sum(twins: IntegerTwins, node: ir.Node) -> ir.Value | str:
    """Sum in 32 bits."""
    x = node.inputs[0]
    assert x is not None
    bounds, integer = twins.bounds(x), twins.integer(x, (_INT32,))
    before, after = static_shape(x), static_shape(node.outputs[0])
    if bounds is None or integer is None:
        return _NO_INTEGERS
    if before is None or after is None or 0 in after:
        return "the number of summed integers is not known"
    if math.prod(before) // math.prod(after) * size_of(bounds) > min(
        largest_in(node.outputs[0].dtype), twins.target.exact
    ):
        return "its sums may be integers that floats round, or beyond 32 bits"
    return twins.op.ReduceSum(integer, *node.inputs[1:], **node.attributes)


def move(twins: IntegerTwins, node: ir.Node) -> ir.Value | str:
    """Move integers in their type."""
    x = node.inputs[0]
    assert x is not None
    if len(node.outputs) > 1:
        return "it has several results"
    integer = twins.integer(x)
    if integer is None:
        return _NO_INTEGERS
    return twins.op.like(node, [integer, *node.inputs[1:]])


def resize(twins: IntegerTwins, node: ir.Node) -> ir.Value | str:
    """Repeat integers; interpolated values would not be integers."""
    if node.attributes.get_string("mode", "nearest") != "nearest":
        return "it interpolates between integers"
    if node.attributes.get_string("coordinate_transformation_mode", "") == "tf_crop_and_resize":
        return "it may extrapolate with a float"
    return move(twins, node)


def pad(twins: IntegerTwins, node: ir.Node) -> ir.Value | str:
    """Pad with an integer."""
    x = node.inputs[0]
    assert x is not None
    given = node.inputs[2] if len(node.inputs) > 2 else None
    held = np.zeros((), np.float32) if given is None else constant(given)
    number, bounds, pads = None if held is None else bounds_of(held), twins.bounds(x), _pads(node)
    if bounds is None or number is None or node.attributes.get_string("mode", "constant") != "constant":
        return "it does not pad with an integer"
    if pads is None:
        return "its padding is not known"
    dtype = container((min(bounds[0], number[0]), max(bounds[1], number[1])))
    integer = None if dtype is None else twins.integer(x, (dtype,))
    assert dtype is not None
    return twins.op.Pad(integer, pads, np.array(number[0], dtype.numpy()))


def _pads(node: ir.Node) -> np.ndarray | None:
    """Return the padding of all axes: ONNX Runtime fails to optimize models that give it for some axes only."""
    pads, axes = constant(node.inputs[1]), node.inputs[3] if len(node.inputs) > 3 else None
    length, chosen = rank(node.inputs[0]), constant(axes)
    if pads is None or axes is None:
        return pads
    if chosen is None or length is None:
        return None
    full = np.zeros((2, length), np.int64)
    full[:, chosen] = pads.reshape(2, -1)
    return full.reshape(-1)


def concat(twins: IntegerTwins, node: ir.Node) -> ir.Value | str:
    """Concatenate integers in a type that holds all of them."""
    found = [twins.bounds(value) for value in node.inputs]
    bounds = [one for one in found if one is not None]
    if len(bounds) != len(found):
        return _NO_INTEGERS
    dtype = container((min(low for low, _ in bounds), max(high for _, high in bounds)))
    parts = [None if value is None or dtype is None else twins.integer(value, (dtype,)) for value in node.inputs]
    if None in parts:
        return _NO_INTEGERS
    return twins.op.Concat(*parts, **node.attributes)


MOVEMENTS = ("Expand", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Tile", "Transpose", "Unsqueeze")
"""Operators that keep elements of their first input unchanged, for all types."""
