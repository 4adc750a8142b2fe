"""Masks of attention scores: terms added to them, or numbers that replace them, before the softmax."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant, number
from onnx_passes.graph.extents import is_limited
from onnx_passes.graph.shapes import Dim, dims, same_dim
from onnx_passes.graph.uses import is_standard, made_by
from onnx_passes.passes.attention.triangles import Triangles
from onnx_passes.rewrite.refusal import Refusal, no

LEAST_EXPONENT = {ir.DataType.FLOAT: -1e9, ir.DataType.FLOAT16: -6e4}
"""Scores at most this large are negligible: the softmax of a fully masked row is the same for each key."""
_REARRANGE = ("Expand", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze")
"""Operators whose result consists of elements of their first input."""


@dataclass(frozen=True)
class Mask:
    """A term of the scores: ``value`` itself or, with ``fill``, a number selected by a condition.

    ``fill`` is the term of keys where the condition ``value`` is true, if ``masks_true``, or else false; other keys get
    zero. ``node`` applies the mask.
    """

    value: ir.Value
    node: ir.Node
    fill: float | None = None
    masks_true: bool = False

    def is_boolean(self, dtype: ir.DataType) -> bool:
        """Return whether masked keys have zero weight in the softmax, for any scores."""
        return self.fill == -np.inf or (self.fill is not None and dtype not in LEAST_EXPONENT)

    @property
    def is_finite(self) -> bool:
        """Return whether the mask is known never to be minus infinity, so that no softmax row is NaN."""
        least = _least(self.value) if self.fill is None else self.fill
        return least is not None and least > -np.inf

    def condition(self, op: Builder) -> ir.Value:
        """Build the condition that is true for visible keys."""
        return self._like(op.Not(self.value)) if self.masks_true else self.value

    def bias(self, op: Builder, dtype: ir.DataType, *, keeps_infinity: bool) -> ir.Value:
        """Build the term of the scores.

        ONNX Runtime treats the lowest number of a type as minus infinity: a fully masked row gives zeros, where the
        softmax of equal scores gives a mean. The next larger number is used instead.
        """
        kind = dtype.numpy()
        least = np.nextafter(np.finfo(kind).min, kind.type(0), dtype=kind)
        if self.fill is not None:
            fill = self.fill if keeps_infinity and self.fill == -np.inf else max(self.fill, float(least))
            zero, other = op.initializer(np.zeros((), kind), "zero"), op.initializer(np.array(fill, kind), "masked")
            return self._like(op.Where(self.value, *((other, zero) if self.masks_true else (zero, other))))
        known = _least(self.value)
        if known is not None and known >= least:
            return self.value
        bound = op.initializer(np.array(least, kind), "least")
        if keeps_infinity:
            lowest = op.initializer(np.array(np.finfo(kind).min, kind), "lowest")
            return self._like(op.Where(op.Equal(self.value, lowest), bound, self.value))
        return self._like(op.Max(self.value, bound))

    def _like(self, made: ir.Value) -> ir.Value:
        made.shape = self.value.shape
        return made


def chosen(node: ir.Node | None) -> Mask | None:
    """Match a Where that selects between zero and a large negative number."""
    if not is_standard(node, "Where"):
        return None
    condition, first, second = node.inputs
    if condition is None:
        return None
    a, b = number(first, node.outputs[0]), number(second, node.outputs[0])
    if a == 0 and b is not None and b < 0:
        return Mask(condition, node, b)
    return Mask(condition, node, a, masks_true=True) if b == 0 and a is not None and a < 0 else None


def added(value: ir.Value, node: ir.Node) -> Mask | None:
    """Return the mask added to the scores; None if it is zero."""
    zeros = made_by(value, "ConstantOfShape")
    if zeros is not None and _filling(zeros) == 0:
        return None
    found = chosen(value.producer())
    return Mask(value, node) if found is None else Mask(found.value, node, found.fill, found.masks_true)


def put_in_place(node: ir.Node, scores: ir.Value, fill: ir.Value, *, masks_true: bool) -> Mask | Refusal:
    """Match a Where that replaces scores by a number."""
    condition, found = node.inputs[0], number(fill, scores)
    least = None if scores.dtype is None else LEAST_EXPONENT.get(scores.dtype)
    if condition is None or found is None or least is None:
        return no("the masking value is not a constant number", at=fill)
    if found > least:
        return no("the masking value is not far below the scores", at=fill)
    return Mask(condition, node, found, masks_true)


def fits(mask: Mask, scores: tuple[Dim, ...]) -> bool:
    """Return whether a mask broadcasts to the scores without enlarging them.

    It cannot enlarge the axis of keys: the number of values would not match.
    """
    sizes = dims(mask.value)
    if sizes is None or len(sizes) > len(scores):
        return False
    pairs = zip(sizes[-2::-1], scores[-2::-1], strict=False)
    return all(size == 1 or is_as_many(size, whole) for size, whole in pairs)


def is_as_many(size: Dim, whole: Dim) -> bool:
    """Return whether a mask covers a whole axis of the scores; a smaller size above one would not run."""
    return same_dim(size, whole) or is_limited(size, whole)


def may_leave_out_all(mask: Mask, triangles: Triangles) -> bool:
    """Return whether a mask uses minus infinity and is not known to leave every query a visible key."""
    array = constant(mask.value)
    if mask.fill is None:
        return array is not None and bool(np.isneginf(array).all(axis=-1).any())
    if mask.fill != -np.inf:
        return False
    if array is not None:
        return not (array != mask.masks_true).any(axis=-1).all()
    triangle = triangles.of(mask.value)
    return triangle is None or bool(triangle.near) == mask.masks_true or not triangle.is_near_in_each_row


def covers(masks: tuple[Mask, ...], scores: tuple[Dim, ...], axis: int) -> bool:
    """Return whether the masks together are known to have as many rows, or columns, as the scores."""
    if scores[axis] == 1:
        return True
    sizes = (dims(mask.value) or () for mask in masks)
    return any(len(size) >= -axis and is_as_many(size[axis], scores[axis]) for size in sizes)


def _least(value: ir.Value | None) -> float | None:
    """Return a lower bound of the elements; None if none is known."""
    array, node = constant(value), None if value is None else value.producer()
    if array is not None:
        return float(array.min()) if array.size and array.dtype.kind == "f" else None
    if node is None or node.domain:
        return None
    if node.op_type == "ConstantOfShape":
        return _filling(node)
    if node.op_type == "Where":
        bounds = [_least(node.inputs[1]), _least(node.inputs[2])]
        return None if None in bounds else min(bound for bound in bounds if bound is not None)
    return _least(node.inputs[0]) if node.op_type in _REARRANGE else None


def _filling(node: ir.Node) -> float:
    given = node.attributes.get("value")
    return 0.0 if given is None else float(given.as_tensor().numpy().reshape(-1)[0])
