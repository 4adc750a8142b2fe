"""Sides that compute every element from one element of one value: a function for each channel."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from onnx_passes.fragment.assembly import ByChannel
from onnx_passes.fragment.fragment import Fragment, shared_inputs
from onnx_passes.graph.constants import constant, constant_tensor
from onnx_passes.graph.shapes import dimension, rank
from onnx_passes.graph.traits import is_elementwise, traits_of
from onnx_passes.ops.definition import definition_of
from onnx_passes.ops.facts.sums import weight_channels
from onnx_passes.ops.multi_threshold import channel_axis
from onnx_passes.ops.quantizer import is_quantizer

_MOST_CHANNELS = 2**16
_CHANNELS = 1
"""The axis of the channels of BatchNormalization."""
_LINEAR = frozenset({"QuantizeLinear", "DequantizeLinear"})
_BY_PLACE = frozenset({"Max", "Min", "Where"})
"""What depends on the place of an element only in the sign of zeros, and for NaN."""


@dataclass(frozen=True, eq=False)
class Pointwise(ByChannel):
    """Two sides that read ``source`` alone, and the axes with their sizes along which constants vary.

    The old side may read what is the same but for ``signs``, a number for each channel.
    """

    source: ir.Value
    axes: dict[int, int]
    sides: tuple[Fragment, Fragment]
    signs: np.ndarray | None = None

    @property
    def rank(self) -> int:
        """Return the number of axes of the source."""
        return rank(self.source) or 0

    def feeds(self, points: np.ndarray) -> list[np.ndarray]:
        """Return what either side reads for points of shape ``[channels, n]``."""
        if self.signs is None:
            return [self.laid(points)]
        return [self.laid(points * self.signs[:, None] + self.signs.dtype.type(0)), self.laid(points)]


def pointwise(sides: tuple[Fragment, Fragment]) -> Pointwise | str:
    """See two sides as functions of single elements, or say why they are none."""
    turned = mirrored(*sides)
    if turned is not None:
        sides = turned.sides
    sources = [turned.new] if turned is not None else shared_inputs(sides)
    if len(sources) != 1:
        return f"it is computed from {len(sources)} values"
    source = sources[0]
    length = rank(source)
    if length is None:
        return "the number of axes is not known"
    axes: dict[int, int] = {}
    if turned is not None:
        axes |= {axis: size for axis, size in enumerate(turned.signs.shape) if size > 1}
    for side in sides:
        for node in side.moving:
            found = _axes(side, node, source, length)
            if isinstance(found, str):
                return found
            axes |= found
    if math.prod(axes.values()) > _MOST_CHANNELS:
        return "constants are different for too many elements"
    if any(not side.is_dynamic(value) for side in sides for value in side.outputs):
        return "a result does not depend on it"
    found = Pointwise(source, dict(sorted(axes.items())), sides)
    if turned is None:
        return found
    return replace(found, signs=np.broadcast_to(turned.signs, found.layout).reshape(-1))


def _axes(side: Fragment, node: ir.Node, source: ir.Value, length: int) -> dict[int, int] | str:
    """Return the axes, with their sizes, along which the constants of an elementwise node vary."""
    kind = _kind(node)
    if not kind:
        return f"{node.op_type} does not compute element by element"
    if traits_of(node).place_dependent and node.op_type not in _BY_PLACE:
        return f"{node.op_type} rounds an element by its place in memory"
    dynamic = [value for value in node.inputs if side.is_dynamic(value)]
    if kind != "broadcast" and dynamic != [node.inputs[0]]:
        return f"a parameter of {node.op_type} is computed"
    axes: dict[int, int] = {}
    for value in node.inputs:
        if value is None or value in dynamic:
            continue
        shape = _shape(value)
        if shape is None:
            return f"the shape of a parameter of {node.op_type} is not known"
        if math.prod(shape) == 1 and len(shape) <= length:
            continue
        found = _places(node, kind, shape, length)
        if found is None:
            return f"a parameter of {node.op_type} has a higher rank"
        if any(dimension(source, axis) != size for axis, size in found.items()):
            return f"a parameter of {node.op_type} may change the shape"
        axes |= found
    return axes


def _kind(node: ir.Node) -> str:
    if node.op_type == "MultiThreshold" and definition_of(node) is not None:
        return "thresholds"
    if node.op_type in _LINEAR:
        return "" if node.attributes.get_int("block_size", 0) else "axis"
    if is_elementwise(node) or (node.domain and is_quantizer(node)):
        return "broadcast" if len(node.outputs) == 1 else ""
    normalizes = node.op_type == "BatchNormalization" and node.domain == "" and len(node.outputs) == 1
    return "channels" if normalizes and not node.attributes.get_int("training_mode", 0) else ""


def _places(node: ir.Node, kind: str, shape: tuple[int, ...], length: int) -> dict[int, int] | None:
    if kind == "channels":
        return {_CHANNELS: shape[0]} if shape[0] > 1 else {}
    if kind == "axis":
        axis = node.attributes.get_int("axis", 1)
        return {axis % length: shape[0]} if len(shape) == 1 and -length <= axis < length else None
    if kind == "thresholds":
        return _of_thresholds(node, shape, length)
    if len(shape) > length:
        return None
    return {length - len(shape) + axis: size for axis, size in enumerate(shape) if size > 1}


def _of_thresholds(node: ir.Node, shape: tuple[int, ...], length: int) -> dict[int, int] | None:
    definition = definition_of(node)
    assert definition is not None
    rows = shape[:-1]
    if "data_layout" in {attribute.name for attribute in definition.attributes}:
        axis = channel_axis(definition.checked(node)["data_layout"], length)
        return {axis: rows[0]} if rows[0] > 1 else {}
    if len(rows) > length:
        return None
    return {length - len(rows) + axis: size for axis, size in enumerate(rows) if size > 1}


def _shape(value: ir.Value) -> tuple[int, ...] | None:
    tensor = constant_tensor(value)
    if tensor is not None:
        return tuple(tensor.shape.numpy())
    shape = value.shape
    return tuple(shape.numpy()) if shape is not None and shape.is_static() else None


def rows_of(node: ir.Node, found: Pointwise) -> np.ndarray | None:
    """Return the constant thresholds of a node, a row for each channel of the sides."""
    held = constant(node.inputs[1])
    if held is None or held.ndim == 0:
        return None
    axes = _of_thresholds(node, held.shape, found.rank)
    if axes is None:
        return None
    places = tuple(axes.get(axis, 1) for axis in range(found.rank))
    return np.broadcast_to(held.reshape(*places, -1), (*found.layout, held.shape[-1])).reshape(found.channels, -1)


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
    if node is None or weight_channels(node) is None:
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
    axis, weights = weight_channels(old) or 0, (constant(old.inputs[1]), constant(new.inputs[1]))
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
