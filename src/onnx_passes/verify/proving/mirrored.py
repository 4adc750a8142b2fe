"""Products whose weights were turned around in some channels: what follows sees the same numbers, but for their sign.

Rounding to the nearest treats both signs alike, so that a sum of negated products is the negated sum, to the last bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.fragment.fragment import Fragment
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import rank

_WEIGHT_AXES: Mapping[str, int] = {"Conv": 0, "MatMul": 1, "ConvTranspose": 1}
"""The axis of the weights that makes the channels of a product; of a MatMul, if they are one matrix."""
_MATRIX = 2


@dataclass(frozen=True, eq=False)
class Mirrored:
    """Two sides that begin behind products, the values that they begin with, and the sign of one against the other.

    Signs are 1 or -1, and broadcast against the values.
    """

    sides: tuple[Fragment, Fragment]
    old: ir.Value
    new: ir.Value
    signs: np.ndarray


def mirrored(old: Fragment, new: Fragment) -> Mirrored | None:
    """Find the product at the beginning of either side, and cut the sides behind it."""
    first, second = _product(old), _product(new)
    if first is None or second is None or first is second:
        return None
    signs = _signs(first, second)
    if signs is None:
        return None
    pairs = ((old, first), (new, second))
    before, after = (Fragment.between((node.outputs[0], *side.inputs), side.outputs) for side, node in pairs)
    sides = before, after
    if any(side.inputs != (node.outputs[0],) for side, node in zip(sides, (first, second), strict=True)):
        return None
    return Mirrored(sides, first.outputs[0], second.outputs[0], signs)


def _product(side: Fragment) -> ir.Node | None:
    if len(side.inputs) != 1:
        return None
    users = [node for node in side.nodes if side.inputs[0] in node.inputs]
    node = users[0] if len(users) == 1 else None
    if node is None or node.domain or node.op_type not in _WEIGHT_AXES:
        return None
    return node if node.inputs[0] is side.inputs[0] else None


def _signs(old: ir.Node, new: ir.Node) -> np.ndarray | None:
    length = rank(old.outputs[0])
    if old.op_type != new.op_type or old.inputs[0] is not new.inputs[0] or length is None:
        return None
    if len(old.inputs) != len(new.inputs) or dict(old.attributes) != dict(new.attributes):
        return None
    if old.op_type == "ConvTranspose" and old.attributes.get_int("group", 1) != 1:
        return None
    axis, weights = _WEIGHT_AXES[old.op_type], (constant(old.inputs[1]), constant(new.inputs[1]))
    if old.op_type == "MatMul" and rank(old.inputs[1]) != _MATRIX:
        return None
    signs = None if weights[0] is None or weights[1] is None else _sign(weights[0], weights[1], axis)
    if signs is None:
        return None
    for before, after in zip(old.inputs[2:], new.inputs[2:], strict=True):
        a, b = constant(before), constant(after)
        if a is None or b is None or a.shape != b.shape or not np.array_equal(a * signs, b):
            return None
    place = length - 1 if old.op_type == "MatMul" else 1
    return signs.reshape([-1 if axis == place else 1 for axis in range(length)])


def _sign(old: np.ndarray, new: np.ndarray, axis: int) -> np.ndarray | None:
    if old.shape != new.shape or old.dtype != new.dtype or old.ndim <= axis:
        return None
    others = tuple(each for each in range(old.ndim) if each != axis)
    same, opposite = (old == new).all(axis=others), (old == -new).all(axis=others)
    return np.where(same, 1, -1).astype(old.dtype) if (same | opposite).all() else None
