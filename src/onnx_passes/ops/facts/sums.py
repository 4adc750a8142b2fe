"""Sizes of sums: how many products a matrix product, Einsum or convolution adds up for one element of its result."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import dimension, rank

Labels = tuple[str, ...]


@dataclass(frozen=True)
class Contraction:
    """The label of each axis of both operands, and of the result; axes under an ellipsis are numbered from the end."""

    operands: tuple[Labels, Labels]
    result: Labels

    @property
    def summed(self) -> Labels:
        """Return the labels along which products are added up."""
        return tuple(dict.fromkeys(label for labels in self.operands for label in labels if label not in self.result))

    def summed_axes(self, index: int) -> tuple[int, ...]:
        """Return the axes of an operand along which products are added up."""
        return tuple(axis for axis, label in enumerate(self.operands[index]) if label not in self.result)


def contraction_of(node: ir.Node) -> Contraction | None:
    """Read the equation of an Einsum of two operands; nothing of one that takes a diagonal, or of unknown ranks."""
    text = node.attributes.get_string("equation", "").replace(" ", "").replace("...", ".")
    given, _, said = text.partition("->")
    terms, ranks = given.split(","), [rank(value) for value in node.inputs]
    if len(terms) != 2 or len(ranks) != 2:
        return None
    operands = [_labels(term, length) for term, length in zip(terms, ranks, strict=True)]
    first, second = operands
    if first is None or second is None:
        return None
    free = [label for label in dict.fromkeys((*first, *second)) if label.startswith(".")]
    under = tuple(sorted(free, key=lambda label: -int(label[1:])))
    result = _spread(said, under) if "->" in text else (*under, *_once(first, second))
    return Contraction((first, second), result) if set(result) <= {*first, *second} else None


def _labels(term: str, length: int | None) -> Labels | None:
    named = term.replace(".", "")
    if length is None or len(set(named)) < len(named):
        return None
    free = length - len(named)
    if free < 0 or (free and "." not in term):
        return None
    return _spread(term, tuple(f".{place}" for place in range(free, 0, -1)))


def _spread(term: str, under: Labels) -> Labels:
    before, dots, behind = term.partition(".")
    return (*before, *(under if dots else ()), *behind)


def _once(first: Labels, second: Labels) -> Labels:
    """Return the labels of a result that is left open: all that occur once, in the order of letters."""
    return tuple(
        sorted(label for label in {*first, *second} if (label in first) != (label in second) and label[0] != ".")
    )


Bounds = tuple[int, int]
"""The least and the greatest integer."""

_BEHIND_FIRST = frozenset({"Conv", "ConvInteger"})
_CHANNELS = {"Conv": 0, "ConvTranspose": 1, "MatMul": 1}


def weight_channels(node: ir.Node) -> int | None:
    """Return the axis of the weights that makes the channels of a result; of a MatMul, if they are one matrix."""
    return None if node.domain else _CHANNELS.get(node.op_type)


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
