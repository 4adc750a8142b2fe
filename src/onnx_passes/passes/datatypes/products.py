"""Data types of sums of products: the weights are looked at where they are constant."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from onnx_passes.datatypes import Range
from onnx_passes.datatypes.arrays import numbers
from onnx_passes.datatypes.limits import EXACT_IN_DOUBLE
from onnx_passes.datatypes.ranges import ZERO
from onnx_passes.datatypes.smallest import integer_ends
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import dimension, rank, static_shape
from onnx_passes.passes.datatypes.elementwise import given
from onnx_passes.passes.datatypes.facts import DATATYPES, QUANTIZED_DOMAINS, Fact, Facts

_BITS = Range(0, 1)


class Sum(NamedTuple):
    """The range of a sum, and that of what may occur while it is added up, in whatever order."""

    range: Range
    partial: Range

    def plus(self, summand: Range) -> Sum:
        """Add one number more."""
        return Sum(self.range + summand, self.partial + (summand | ZERO))


def sum_of_products(a: Range, b: Range, terms: int) -> Sum:
    """Return the range of a sum of which only the ranges of the factors are known."""
    return Sum(a.dot(b, terms), (a * b | ZERO).times(terms))


def weighted_sums(weights: np.ndarray, axes: tuple[int, ...], other: Range) -> list[Sum]:
    """Return the range for each channel, from its positive and its negative weights, summed over ``axes``."""
    wide = other | ZERO
    return [
        Sum(other.times(plus) + other.times(minus), wide.times(plus) + wide.times(minus))
        for plus, minus in _signed_sums(weights, axes)
    ]


def _signed_sums(weights: np.ndarray, axes: tuple[int, ...]) -> Iterable[tuple[int, int]]:
    known = numbers(weights)
    assert known is not None
    terms = math.prod(known.shape[axis] for axis in axes)
    largest = max(abs(int(known.max())), abs(int(known.min()))) if known.size else 0
    if terms * largest < EXACT_IN_DOUBLE:
        parts = [part(known, 0).sum(axis=axes, dtype=np.float64) for part in (np.maximum, np.minimum)]
    else:
        exact = np.array([int(item) for item in known.flat], dtype=object).reshape(known.shape)
        parts = [part(exact, 0).sum(axis=axes) for part in (np.maximum, np.minimum)]
    positive, negative = ([int(item) for item in np.asarray(part).reshape(-1).tolist()] for part in parts)
    return zip(positive, negative, strict=True)


def _joined(sums: list[Sum]) -> Sum | None:
    if not sums:
        return None
    ends = [
        Range(min(range_.low for range_ in column), max(range_.high for range_ in column))
        for column in zip(*sums, strict=True)
    ]
    return Sum(*ends)


def _integers(value: ir.Value | None) -> np.ndarray | None:
    """Return a constant if all of its elements are integers."""
    array = constant(value)
    return array if array is not None and integer_ends(array) is not None else None


def _computed(node: ir.Node, facts: Facts, found: Sum | None) -> Fact | None:
    return None if found is None else facts.computed(node.outputs[0], found.range, found.partial)


def _product(node: ir.Node, facts: Facts, *, left_last: bool = True, right_last: bool = False) -> Sum | None:
    """Return the range of a matrix product; the flags say whether the summed axis is the last one."""
    left, right = given(node, 0), given(node, 1)
    a, b = facts.of(left).range, facts.of(right).range
    if a is None or b is None:
        return None
    for value, other, last in ((right, a, right_last), (left, b, left_last)):
        weights = _integers(value)
        if weights is not None and weights.ndim:
            axis = -1 if last or weights.ndim == 1 else -2
            return _joined(weighted_sums(weights, (weights.ndim + axis,), other))
    lengths = (_length(value, last) for value, last in ((left, left_last), (right, right_last)))
    terms = next((length for length in lengths if length is not None), None)
    return None if terms is None else sum_of_products(a, b, terms)


def _length(value: ir.Value | None, last: bool) -> int | None:
    return dimension(value, -1 if last or rank(value) == 1 else -2)


def _matmul(node: ir.Node, facts: Facts) -> Fact | None:
    return _computed(node, facts, _product(node, facts))


def _gemm(node: ir.Node, facts: Facts) -> Fact | None:
    attributes, bias = node.attributes, given(node, 2)
    alpha, beta = attributes.get_float("alpha", 1.0), attributes.get_float("beta", 1.0)
    transposed = bool(attributes.get_int("transA", 0)), bool(attributes.get_int("transB", 0))
    found = _product(node, facts, left_last=not transposed[0], right_last=transposed[1])
    summand = ZERO if bias is None else facts.of(bias).range
    if found is None or summand is None or not (alpha.is_integer() and beta.is_integer()):
        return None
    scaled = Sum(found.range.times(int(alpha)), found.partial | found.partial.times(int(alpha)))
    return _computed(node, facts, scaled.plus(summand.times(int(beta))))


def _conv(node: ir.Node, facts: Facts) -> Fact | None:
    found = _convolution(node, facts, given(node, 2))
    return _computed(node, facts, found)


def _convolution(node: ir.Node, facts: Facts, bias: ir.Value | None) -> Sum | None:
    """Return the range of a convolution; zeros around the image count among its numbers."""
    image, kernel = facts.of(given(node, 0)).range, given(node, 1)
    factors, summand = facts.of(kernel).range, ZERO if bias is None else facts.of(bias).range
    if image is None or factors is None or summand is None:
        return None
    if _is_padded(node):
        image |= ZERO
    weights, biases = _integers(kernel), _integers(bias)
    if weights is None or weights.ndim < 2:
        shape = static_shape(kernel)
        return None if shape is None else sum_of_products(image, factors, math.prod(shape[1:])).plus(summand)
    channels = weighted_sums(weights, tuple(range(1, weights.ndim)), image)
    if biases is not None and biases.size == len(channels):
        each = [int(number) for number in biases.reshape(-1).tolist()]
        return _joined([channel.plus(Range(b, b)) for channel, b in zip(channels, each, strict=True)])
    total = _joined(channels)
    return None if total is None else total.plus(summand)


def _is_padded(node: ir.Node) -> bool:
    explicit = any(node.attributes.get_ints("pads", ()))
    return explicit or node.attributes.get_string("auto_pad", "NOTSET") not in ("NOTSET", "VALID")


def _conv_integer(node: ir.Node, facts: Facts) -> Fact | None:
    return None if _has_zero_points(node) else _computed(node, facts, _convolution(node, facts, None))


def _matmul_integer(node: ir.Node, facts: Facts) -> Fact | None:
    return None if _has_zero_points(node) else _matmul(node, facts)


def _has_zero_points(node: ir.Node) -> bool:
    points = [(value, constant(value)) for value in node.inputs[2:4] if value is not None]
    return any(array is None or bool(array.astype(np.int64).any()) for _, array in points)


def _reduce_sum(node: ir.Node, facts: Facts) -> Fact | None:
    value, given_axes = given(node, 0), given(node, 1)
    known, length = facts.of(value).range, rank(value)
    axes = node.attributes.get_ints("axes", ()) if given_axes is None else constant(given_axes)
    if known is None or length is None or axes is None:
        return None
    chosen = [int(axis) for axis in axes]
    if not chosen:
        chosen = [] if node.attributes.get_int("noop_with_empty_axes", 0) else list(range(length))
    extents = [dimension(value, axis) for axis in chosen]
    terms = math.prod(extent for extent in extents if extent is not None)
    return None if None in extents else _computed(node, facts, sum_of_products(known, Range(1, 1), terms))


def xnor_popcount(node: ir.Node, facts: Facts) -> Fact | None:
    """Count how often the bits of two vectors agree, if they are bits."""
    operands = [facts.of(given(node, index)).range for index in (0, 1)]
    if any(known is None or known not in _BITS for known in operands):
        return None
    terms = _length(given(node, 0), True) or _length(given(node, 1), False)
    return None if terms is None else Fact.between(Range(0, terms))


DATATYPES.attach(
    {
        "Conv": _conv,
        "ConvInteger": _conv_integer,
        "Gemm": _gemm,
        "MatMul": _matmul,
        "MatMulInteger": _matmul_integer,
        "ReduceSum": _reduce_sum,
    }
)
DATATYPES.of("Conv", domains=QUANTIZED_DOMAINS)(_conv)
DATATYPES.of("XnorPopcountMatMul", domains=QUANTIZED_DOMAINS)(xnor_popcount)
