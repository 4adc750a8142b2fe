"""How much a product of matrices, or a convolution, adds up for one element of its result."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.einsum import contraction_of
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import dimension, rank

Bounds = tuple[int, int]
"""The least and the greatest integer."""

_BEHIND_FIRST = frozenset({"Conv", "ConvInteger"})


def size_of(bounds: Bounds) -> int:
    """Return the greatest absolute value."""
    return max(-bounds[0], bounds[1])


def summed_axes(node: ir.Node, index: int, length: int) -> tuple[int, ...] | None:
    """Return the axes of an operand, of so many axes, that are added up; nothing where these are not all elements."""
    if node.op_type == "Einsum":
        found = contraction_of(node)
        return None if found is None else found.summed_axes(index)
    if node.op_type in _BEHIND_FIRST:
        return tuple(range(1, length)) if index == 1 else None
    if node.op_type == "ConvTranspose":
        return (0, *range(2, length)) if index == 1 else None
    if length == 1:
        return (0,)
    turned = node.op_type == "Gemm" and bool(node.attributes.get_int("transB" if index else "transA", 0))
    return (length - (2 if (index == 1) != turned else 1),)


def terms_of(node: ir.Node) -> int | None:
    """Return how many products are added up at most, if that is known."""
    for index in (1, 0):
        value = node.inputs[index]
        length = rank(value)
        axes = None if length is None else summed_axes(node, index, length)
        sizes = [None] if axes is None else [dimension(value, axis) for axis in axes]
        known = [size for size in sizes if size is not None]
        if len(known) == len(sizes):
            return math.prod(known)
    return None


def largest_norm(node: ir.Node, weights: np.ndarray) -> int:
    """Return the greatest sum of absolute weights of one output."""
    axes = summed_axes(node, 1, weights.ndim)
    return int(np.abs(weights.astype(np.float64)).sum(axis=axes).max(initial=0))


def sums_between(node: ir.Node, bounds: Callable[[ir.Value | None], Bounds | None]) -> Bounds | None:
    """Return what some of the products add up to at least and at most: no sum leaves it, whatever its order."""
    left, right = (bounds(value) for value in node.inputs[:2])
    if left is None or right is None:
        return None
    for index, other in ((1, left), (0, right)):
        held = constant(node.inputs[index])
        axes = None if held is None else summed_axes(node, index, held.ndim)
        if held is not None and axes is not None:
            return sums_of(held, other, axes)
    terms = terms_of(node)
    if terms is None:
        return None
    corners = [terms * a * b for a in left for b in right]
    return min(*corners, 0), max(*corners, 0)


def sums_within(node: ir.Node, bounds: Callable[[ir.Value | None], Bounds | None], limit: float) -> bool:
    """Tell whether no sum passes a limit; types alone often tell, without a look at the weights."""
    left, right = (bounds(value) for value in node.inputs[:2])
    if left is None or right is None:
        return False
    terms = terms_of(node)
    if terms is not None and terms * size_of(left) * size_of(right) <= limit:
        return True
    sums = sums_between(node, bounds)
    return sums is not None and size_of(sums) <= limit


def sums_of(weights: np.ndarray, bounds: Bounds, axes: tuple[int, ...]) -> Bounds:
    """Return what some of the products of weights with integers add up to at least and at most."""
    wide = weights.astype(np.float64)
    positive, negative = (np.maximum(part, 0).sum(axis=axes) for part in (wide, -wide))
    above, below = max(bounds[1], 0), max(-bounds[0], 0)
    up, down = positive * above + negative * below, positive * below + negative * above
    return -int(down.max(initial=0)), int(up.max(initial=0))


def greatest_sum(weights: np.ndarray, bounds: Bounds, axes: tuple[int, ...]) -> int:
    """Return what some of the products of weights with integers add up to at most, in size."""
    return size_of(sums_of(weights, bounds, axes))
