"""Elements of a model's values in rational arithmetic: what floats mean before anything is rounded."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.windows import windows_of
from onnx_passes.graph.constants import constant
from onnx_passes.graph.operators import Interface
from onnx_passes.graph.shapes import static_shape
from onnx_passes.verify.run.execute import Sample

Index = tuple[int, ...]

_MOST = 100_000
"""So many elements are computed at most."""
_DIGITS = Context(prec=80)
"""Roots are no rational numbers: so many digits are taken of them."""


class UnknownError(Exception):
    """An element that is not computed here."""


class Exact:
    """Computes elements one by one, from the values ``known`` of a run on; these are taken as they are."""

    def __init__(self, known: Sample) -> None:
        self._known = known
        self._found: dict[tuple[ir.Value, Index], Fraction] = {}

    def element(self, value: ir.Value | None, index: Index) -> Fraction:
        """Return an element of a value. Raises UnknownError."""
        if value is None:
            raise UnknownError
        held = self._known.get(str(value.name))
        array = constant(value) if held is None else held
        if array is not None:
            number = float(array[index])
            if not math.isfinite(number):
                raise UnknownError
            return Fraction(number)
        key = value, index
        if key not in self._found:
            node = value.producer()
            compute = None if node is None else EXACT.get(node)
            if node is None or compute is None or len(self._found) > _MOST:
                raise UnknownError
            self._found[key] = compute(self, node, index)
        return self._found[key]

    def read(self, node: ir.Node, position: int, index: Index) -> Fraction:
        """Return the element of an input that is broadcast to an index of the result."""
        value = node.inputs[position]
        shape = _shape(value)
        last = index[len(index) - len(shape) :]
        return self.element(value, tuple(0 if size == 1 else i for size, i in zip(shape, last, strict=True)))


Element = Callable[[Exact, ir.Node, Index], Fraction]
EXACT: Interface[Element] = Interface("exact", "an element of its result in rational arithmetic")


def _shape(value: ir.Value | None) -> tuple[int, ...]:
    shape = static_shape(value)
    if shape is None:
        raise UnknownError
    return shape


def _elementwise(function: Callable[..., Fraction]) -> Element:
    def compute(exact: Exact, node: ir.Node, index: Index) -> Fraction:
        return function(*(exact.read(node, position, index) for position in range(len(node.inputs))))

    return compute


def _quotient(a: Fraction, b: Fraction) -> Fraction:
    if not b:
        raise UnknownError
    return a / b


def _positive(a: Fraction) -> Fraction:
    return max(a, Fraction())


def _sum(*terms: Fraction) -> Fraction:
    return sum(terms, Fraction())


def _greatest(*terms: Fraction) -> Fraction:
    return max(terms)


def _least(*terms: Fraction) -> Fraction:
    return min(terms)


def _root(number: Fraction) -> Fraction:
    if number <= 0:
        raise UnknownError
    ratio = _DIGITS.divide(Decimal(number.numerator), Decimal(number.denominator))
    return Fraction(_DIGITS.sqrt(ratio))


def _batch_normalization(exact: Exact, node: ir.Node, index: Index) -> Fraction:
    scale, bias, mean, variance = (exact.element(node.inputs[position], (index[1],)) for position in range(1, 5))
    epsilon = Fraction(float(np.float32(node.attributes.get_float("epsilon", 1e-5))))
    return (exact.element(node.inputs[0], index) - mean) / _root(variance + epsilon) * scale + bias


def _matmul(exact: Exact, node: ir.Node, index: Index) -> Fraction:
    a, b = _shape(node.inputs[0]), _shape(node.inputs[1])
    if min(len(a), len(b)) < 2:
        raise UnknownError

    def at(shape: tuple[int, ...], row: int, column: int) -> Index:
        batch = index[len(index) - len(shape) : -2]
        return (*(0 if size == 1 else i for size, i in zip(shape[:-2], batch, strict=True)), row, column)

    row, column = index[-2:]
    terms = (
        exact.element(node.inputs[0], at(a, row, k)) * exact.element(node.inputs[1], at(b, k, column))
        for k in range(a[-1])
    )
    return sum(terms, Fraction())


def _window(node: ir.Node, kernel: Sequence[int], size: Sequence[int], place: Index) -> list[tuple[Index, Index]]:
    """List the places of a window and those that it sees of a picture; what it sees of the padding is left out."""
    windows = windows_of(node, kernel)
    if windows is None or windows.ceil:
        raise UnknownError
    axes = range(len(kernel))
    seen: list[tuple[Index, Index]] = []
    for offset in itertools.product(*map(range, kernel)):
        at = tuple(place[i] * windows.strides[i] - windows.pads[i] + offset[i] * windows.dilations[i] for i in axes)
        if all(0 <= at[i] < size[i] for i in axes):
            seen.append((offset, at))
    return seen


def _conv(exact: Exact, node: ir.Node, index: Index) -> Fraction:
    picture, weights = _shape(node.inputs[0]), _shape(node.inputs[1])
    image, channel, *place = index
    first = channel // (weights[0] // node.attributes.get_int("group", 1)) * weights[1]
    total = exact.element(node.inputs[2], (channel,)) if len(node.inputs) > 2 and node.inputs[2] else Fraction()
    for offset, at in _window(node, weights[2:], picture[2:], tuple(place)):
        for k in range(weights[1]):
            weight = exact.element(node.inputs[1], (channel, k, *offset))
            if weight:
                total += weight * exact.element(node.inputs[0], (image, first + k, *at))
    return total


def _average_pool(exact: Exact, node: ir.Node, index: Index) -> Fraction:
    kernel = list(node.attributes.get_ints("kernel_shape") or ())
    seen = _window(node, kernel, _shape(node.inputs[0])[2:], index[2:])
    count = math.prod(kernel) if node.attributes.get_int("count_include_pad", 0) else len(seen)
    return sum((exact.element(node.inputs[0], (*index[:2], *at)) for _, at in seen), Fraction()) / count


def _global_average_pool(exact: Exact, node: ir.Node, index: Index) -> Fraction:
    size = _shape(node.inputs[0])[2:]
    places = itertools.product(*map(range, size))
    return sum((exact.element(node.inputs[0], (*index[:2], *at)) for at in places), Fraction()) / math.prod(size)


def _reshape(exact: Exact, node: ir.Node, index: Index) -> Fraction:
    flat = np.ravel_multi_index(index, _shape(node.outputs[0])) if index else 0
    before = np.unravel_index(int(flat), _shape(node.inputs[0]))
    return exact.element(node.inputs[0], tuple(int(i) for i in before))


def _transpose(exact: Exact, node: ir.Node, index: Index) -> Fraction:
    order = list(node.attributes.get_ints("perm") or range(len(index))[::-1])
    before = [0] * len(index)
    for place, axis in enumerate(order):
        before[axis] = index[place]
    return exact.element(node.inputs[0], tuple(before))


EXACT.attach(
    {
        "Add": _elementwise(operator.add),
        "AveragePool": _average_pool,
        "BatchNormalization": _batch_normalization,
        "Conv": _conv,
        "Div": _elementwise(_quotient),
        "Flatten": _reshape,
        "GlobalAveragePool": _global_average_pool,
        "Identity": _elementwise(Fraction.__pos__),
        "MatMul": _matmul,
        "Max": _elementwise(_greatest),
        "Min": _elementwise(_least),
        "Mul": _elementwise(operator.mul),
        "Neg": _elementwise(Fraction.__neg__),
        "Relu": _elementwise(_positive),
        "Reshape": _reshape,
        "Squeeze": _reshape,
        "Sub": _elementwise(operator.sub),
        "Sum": _elementwise(_sum),
        "Transpose": _transpose,
        "Unsqueeze": _reshape,
    }
)


def neighbours(number: Fraction, dtype: np.dtype[np.floating]) -> tuple[np.floating, np.floating]:
    """Return the floats next to a number, below and above; both are the number itself if it is one."""
    near = dtype.type(float(number))
    if Fraction(float(near)) == number:
        return near, near
    other = np.nextafter(near, dtype.type(np.inf if Fraction(float(near)) < number else -np.inf))
    return (near, other) if near < other else (other, near)
