"""Masks that depend only on the positions of query and key: one number up to a diagonal, another beyond it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.graph import extents
from onnx_passes.graph.arguments import argument, integers
from onnx_passes.graph.constants import constant
from onnx_passes.graph.extents import Element
from onnx_passes.graph.shapes import dims, same_dim
from onnx_passes.graph.traits import operators
from onnx_passes.passes.fold.vectors import Vectors

_DEEPEST = 32
"""Maximum depth of the nodes that compute a mask."""
_REARRANGE = frozenset(operators("movement")) - {"Concat", "Pad"}
"""Operators whose result consists of elements of their first input, except for the zeros of Trilu."""
_RESHAPES = ("Reshape", "Squeeze", "Unsqueeze")
_MIRRORED = {
    "Greater": "Less",
    "GreaterOrEqual": "LessOrEqual",
    "Less": "Greater",
    "LessOrEqual": "GreaterOrEqual",
}
_ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "Add": np.add,
    "And": np.logical_and,
    "Cast": np.asarray,
    "Div": np.divide,
    "Equal": np.equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Identity": np.asarray,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Max": np.maximum,
    "Min": np.minimum,
    "Mul": np.multiply,
    "Neg": np.negative,
    "Not": np.logical_not,
    "Or": np.logical_or,
    "Sub": np.subtract,
    "Where": np.where,
}


@dataclass(frozen=True)
class Triangle:
    """Last two axes that hold ``near`` where the column is at most the row plus ``offset``, else ``far``.

    Without an offset both are the same number.
    """

    near: float
    far: float
    offset: Element = None

    @property
    def is_near_in_each_row(self) -> bool:
        """Return whether each row is known to begin with ``near``."""
        if isinstance(self.offset, int):
            return self.offset >= 0
        return self.offset is not None and self.offset.is_never_negative


@dataclass(frozen=True)
class Places:
    """Positions along an axis, counted from ``start``; without an axis, ``start`` everywhere."""

    start: Element
    axis: int | None = None


class Triangles:
    """Match values of a graph as triangles."""

    def __init__(self, graph: ir.Graph) -> None:
        self._graph = graph
        self._known: dict[ir.Value, Triangle | None] = {}

    @cached_property
    def _vectors(self) -> Vectors:
        vectors = Vectors()
        vectors.run(self._graph)
        return vectors

    def of(self, value: ir.Value | None, depth: int = 0) -> Triangle | None:
        """Return the triangle of a value; None if it depends on more than positions."""
        if value is None or depth > _DEEPEST:
            return None
        if value not in self._known:
            array = constant(value)
            self._known[value] = self._computed(value.producer(), depth) if array is None else _drawn(array)
        return self._known[value]

    def _computed(self, node: ir.Node | None, depth: int) -> Triangle | None:
        if node is None or node.domain:
            return None
        found = self._compared(node) if node.op_type in _MIRRORED else None
        if found is not None:
            return found
        if node.op_type in _ELEMENTWISE:
            return self._mapped(node, [self.of(value, depth + 1) for value in node.inputs])
        if node.op_type == "ConstantOfShape":
            given = node.attributes.get("value")
            number = 0.0 if given is None else float(given.as_tensor().numpy().reshape(()))
            return Triangle(number, number)
        inner = self.of(argument(node, 0), depth + 1) if node.op_type in _REARRANGE else None
        if inner is None:
            return None
        if node.op_type == "Trilu":
            return self._cut(node, inner)
        if inner.offset is None:
            return inner
        if node.op_type == "Slice":
            return self._sliced(node, inner)
        is_moved = node.op_type == "Expand" or node.op_type in _RESHAPES
        return inner if is_moved and _spans(node.inputs[0], node, inner) else None

    def _mapped(self, node: ir.Node, given: list[Triangle | None]) -> Triangle | None:
        """Apply an elementwise operator to both numbers of the operands."""
        operands = [triangle for triangle in given if triangle is not None]
        offsets = [triangle.offset for triangle in operands if triangle.offset is not None]
        dtype = node.outputs[0].dtype
        if len(operands) < len(given) or dtype is None or any(offset != offsets[0] for offset in offsets):
            return None
        if not all(_spans(value, node, one) for value, one in zip(node.inputs, operands, strict=True)):
            return None
        with np.errstate(all="ignore"):
            near, far = (
                float(np.asarray(_ELEMENTWISE[node.op_type](*numbers)).astype(dtype.numpy()))
                for numbers in ([one.near for one in operands], [one.far for one in operands])
            )
        return Triangle(near, far, offsets[0] if offsets and near != far else None)

    def _cut(self, node: ir.Node, inner: Triangle) -> Triangle | None:
        """Match a Trilu of a constant matrix."""
        diagonal = self._scalar(argument(node, 1)) if argument(node, 1) is not None else 0
        if diagonal is None or inner.offset is not None:
            return None
        if node.attributes.get_int("upper", 1):
            return Triangle(0.0, inner.near, extents.add(diagonal, -1))
        return Triangle(inner.near, 0.0, diagonal)

    def _sliced(self, node: ir.Node, inner: Triangle) -> Triangle | None:
        """Return the triangle after a Slice, which shifts the diagonal."""
        starts, axes, length = self._vectors.get(argument(node, 1)), integers(node, 3), dims(node.inputs[0])
        if starts is None or axes is None or length is None or integers(node, 4) not in (None, [1] * len(axes)):
            return None
        offset = inner.offset
        for axis, start in zip(axes, starts.elements, strict=True):
            place = axis if axis < 0 else axis - len(length)
            if place < -2:
                continue
            if start is None or (start < 0 if isinstance(start, int) else not start.is_never_negative):
                return None
            offset = extents.add(offset, start if place == -2 else extents.negate(start))
        return replace(inner, offset=offset)

    def _compared(self, node: ir.Node) -> Triangle | None:
        """Match the comparison of key positions, along the last axis, with query positions."""
        first, second = (None if value is None else self._places(value) for value in node.inputs)
        if first is None or second is None or {first.axis, second.axis} != {-1, -2}:
            return None
        if not all(
            _keeps(value, node.outputs[0], each.axis) for value, each in zip(node.inputs, (first, second), strict=True)
        ):
            return None
        keys, queries, operator = first, second, node.op_type
        if first.axis == -2:
            keys, queries, operator = second, first, _MIRRORED[node.op_type]
        offset = extents.add(queries.start, extents.negate(keys.start))
        if operator in ("Less", "GreaterOrEqual"):
            offset = extents.add(offset, -1)
        near = float(operator in ("Less", "LessOrEqual"))
        return Triangle(near, 1 - near, offset)

    def _places(self, value: ir.Value, depth: int = 0) -> Places | None:
        array, node = constant(value), value.producer()
        if array is not None:
            return _counted(array)
        start = self._scalar(value)
        if start is not None:
            return Places(start)
        if node is None or node.domain or depth > _DEEPEST:
            return None
        if node.op_type == "Range":
            start, step = self._scalar(node.inputs[0]), self._scalar(node.inputs[2])
            return Places(start, -1) if start is not None and step == 1 else None
        given = [None if each is None else self._places(each, depth + 1) for each in node.inputs[:2]]
        first = given[0]
        if first is None:
            return None
        if node.op_type in ("Add", "Sub"):
            return _summed(node, first, given[1])
        if node.op_type == "Identity" or (node.op_type == "Cast" and (node.outputs[0].dtype or 0) in _INTEGERS):
            return first
        return _moved(node, first)

    def _scalar(self, value: ir.Value | None) -> Element:
        vector = self._vectors.get(value)
        return vector.elements[0] if vector is not None and len(vector.elements) == 1 else None


_INTEGERS = (ir.DataType.INT32, ir.DataType.INT64)


def _drawn(array: np.ndarray) -> Triangle | None:
    """Match a constant: one number everywhere, or the same diagonal in each matrix."""
    if array.size == 0 or array.dtype.kind not in "biuf":
        return None
    number = float(array.reshape(-1)[0])
    if (array == number).all():
        return Triangle(number, number)
    if array.ndim < 2:
        return None
    rows, columns = array.shape[-2:]
    first = array.reshape(-1, columns)[0]
    near, far = float(first[0]), float(first[-1])
    offset = int((first == near).sum()) - 1
    drawn = np.where(np.tri(rows, columns, offset, dtype=np.bool_), near, far)
    return Triangle(near, far, offset) if near != far and bool(np.equal(array, drawn).all()) else None


def _counted(array: np.ndarray) -> Places | None:
    """Match a constant that counts along one axis."""
    if array.size == 0 or array.dtype.kind not in "iu":
        return None
    start = int(array.reshape(-1)[0])
    if array.size == 1:
        return Places(start)
    axis = next((axis for axis in range(-array.ndim, 0) if array.shape[axis] == array.size), None)
    counts = axis is not None and (array.reshape(-1) == np.arange(start, start + array.size)).all()
    return Places(start, axis) if counts else None


def _summed(node: ir.Node, a: Places, b: Places | None) -> Places | None:
    if b is None or (a.axis is not None and b.axis is not None):
        return None
    if node.op_type == "Sub" and b.axis is not None:
        return None
    axis = b.axis if a.axis is None else a.axis
    counted = node.inputs[1 if a.axis is None else 0]
    if axis is not None and not _keeps(counted, node.outputs[0], axis):
        return None
    start = extents.add(a.start, b.start if node.op_type == "Add" else extents.negate(b.start))
    return None if start is None else Places(start, axis)


def _moved(node: ir.Node, places: Places) -> Places | None:
    """Return the positions after an operator that moves their axis."""
    before, after = dims(node.inputs[0]), dims(node.outputs[0])
    if places.axis is None or before is None or after is None:
        return None
    if node.op_type == "Expand":
        return places if _keeps(node.inputs[0], node.outputs[0], places.axis) else None
    wide = [axis - len(after) for axis, size in enumerate(after) if size != 1]
    if node.op_type not in _RESHAPES or [size for size in before if size != 1] != [before[places.axis]]:
        return None
    return Places(places.start, wide[0]) if len(wide) == 1 and same_dim(after[wide[0]], before[places.axis]) else None


def _spans(value: ir.Value | None, node: ir.Node, triangle: Triangle) -> bool:
    """Return whether the last two axes of an input are those of the result."""
    return triangle.offset is None or all(_keeps(value, node.outputs[0], axis) for axis in (-1, -2))


def _keeps(value: ir.Value | None, result: ir.Value, axis: int | None) -> bool:
    before, after = dims(value), dims(result)
    if before is None or after is None or axis is None or min(len(before), len(after)) < -axis:
        return False
    return same_dim(before[axis], after[axis])
