"""Integers that say how much of another input counts, such as the lengths of the signals of a batch."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.constants import constant
from onnx_passes.graph.traits import traits_of
from onnx_passes.verify.samples.sizes import MOVES_DATA, Sizes, reached, shape_of

_ORDERS = frozenset({"Less", "LessOrEqual", "Greater", "GreaterOrEqual"})


def longest(model: ir.Model, value: ir.Value, sizes: Sizes) -> int | None:
    """Return the largest length that an input may hold; None unless positions are compared with what it holds.

    Were lengths much smaller than the other inputs, all of these would count as padding, and no fault would show.
    """
    compared = any(
        node.op_type in _ORDERS and node.domain == "" and _holds_positions(node.inputs[1 - index])
        for node, index in reached(model, value, calculated=True)
    )
    if not compared:
        return None
    others = [other for other in model.graph.inputs if other is not value and not other.is_initializer()]
    lengths = [size for other in others if other.shape is not None for size in shape_of(other, sizes)[1:]]
    return max(lengths, default=None)


def _holds_positions(value: ir.Value | None) -> bool:
    """Tell whether a value is calculated from numbers counted up, and from no input."""
    todo, seen = [value], {value}
    while todo:
        each = todo.pop()
        array = constant(each)
        if array is not None:
            if array.size > 2 and np.array_equal(array.reshape(-1), np.arange(array.size)):
                return True
            continue
        node = None if each is None else each.producer()
        if node is None or node.domain != "":
            continue
        if node.op_type == "Range":
            return True
        if node.op_type in MOVES_DATA:
            behind = node.inputs[:1]
        else:
            behind = node.inputs if traits_of(node).kind == "elementwise" else ()
        todo += [given for given in behind if given not in seen]
        seen.update(behind)
    return False
