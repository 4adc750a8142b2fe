"""Sides of operators that every engine rounds alike, computed by numpy: no session is needed for a few points.

Sums, products and quotients of floats are rounded to the nearest, comparisons and counts are exact. Left to engines are
the sign of zeros, and what becomes of NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.fragment.fragment import Fragment
from onnx_passes.graph.constants import constant
from onnx_passes.ops.definition import definition_of
from onnx_passes.ops.quant import Quant
from onnx_passes.verify.proving.pointwise import Pointwise, rows_of

_OPERATORS: Mapping[str, Callable[..., Any]] = {
    "Add": np.add,
    "Div": np.divide,
    "Identity": np.positive,
    "Max": np.maximum,
    "Min": np.minimum,
    "Mul": np.multiply,
    "Neg": np.negative,
    "Relu": partial(np.maximum, np.float32(0)),
    "Sub": np.subtract,
}
_TWO = 2


def is_arithmetic(side: Fragment) -> bool:
    """Tell whether numpy computes a side as any engine does."""
    return len(side.outputs) == 1 and all(map(_is_known, side.moving))


def computed(found: Pointwise, side: Fragment, points: np.ndarray) -> np.ndarray:
    """Return what a side makes of points of shape ``[channels, n]``."""
    known: dict[ir.Value, np.ndarray] = {side.inputs[0]: points}
    with np.errstate(all="ignore"):
        for node in side.moving:
            known[node.outputs[0]] = _result(found, node, known)
    return np.broadcast_to(known[side.outputs[0]], points.shape)


def _is_known(node: ir.Node) -> bool:
    values = [value for value in node.inputs if value is not None]
    if any(value.dtype not in (None, ir.DataType.FLOAT) for value in (*values, *node.outputs)):
        return False
    held = [constant(value) for value in values[1:]]
    if node.domain == "":
        return len(values) <= _TWO and node.op_type in _OPERATORS and not node.attributes
    if node.op_type == "MultiThreshold":
        rows = held[0] if len(held) == 1 else None
        return rows is not None and "data_layout" in _names(node)
    return isinstance(definition_of(node), Quant) and all(array is not None for array in held)


def _names(node: ir.Node) -> set[str]:
    definition = definition_of(node)
    return set() if definition is None else {attribute.name for attribute in definition.attributes}


def _result(found: Pointwise, node: ir.Node, known: Mapping[ir.Value, np.ndarray]) -> np.ndarray:
    if node.op_type == "MultiThreshold":
        rows, given = rows_of(node, found), node.inputs[0]
        assert rows is not None
        assert given is not None
        return _counted(node, np.sort(rows, axis=1), known[given])
    inputs = [_input(found, value, known) for value in node.inputs if value is not None]
    if node.domain == "":
        return np.asarray(_OPERATORS[node.op_type](*inputs), np.float32)
    definition = definition_of(node)
    assert definition is not None
    return definition.compute(inputs, definition.checked(node))


def _input(found: Pointwise, value: ir.Value, known: Mapping[ir.Value, np.ndarray]) -> np.ndarray:
    if value in known:
        return known[value]
    array = constant(value)
    assert array is not None
    if array.size == 1:
        return array.reshape(1, 1)
    spread = array.reshape((1,) * (found.rank - array.ndim) + array.shape)
    return np.broadcast_to(spread, found.layout).reshape(-1, 1)


def _counted(node: ir.Node, rows: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Count the thresholds that points have reached."""
    definition = definition_of(node)
    assert definition is not None
    given = definition.checked(node)
    counted = np.empty(points.shape, np.float32)
    for channel, row in enumerate(rows):
        counted[channel] = np.searchsorted(row, points[channel], side="right")
    return np.float32(given["out_scale"]) * counted + np.float32(given["out_bias"])
