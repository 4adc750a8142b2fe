"""Elements of a model's values in rational arithmetic: what floats mean before anything is rounded."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.windows import windows_of
from onnx_passes.graph.constants import constant, is_constant
from onnx_passes.graph.operators import Interface
from onnx_passes.graph.shapes import static_shape
from onnx_passes.graph.traits import is_elementwise
from onnx_passes.numbers.arithmetic import ExactArithmetic, UnknownOperatorError, filled
from onnx_passes.numbers.enclosures import Real
from onnx_passes.ops.semantics.exact import apply, is_by_element
from onnx_passes.ops.semantics.exact_values import exact_value
from onnx_passes.verify.run.execute import Sample

Index = tuple[int, ...]

_MOST = 100_000
"""So many elements are computed at most."""


class UnknownError(Exception):
    """An element that is not computed here."""


class Exact:
    """Computes elements one by one, from the values ``known`` of a run on; these are taken as they are."""

    def __init__(self, known: Sample) -> None:
        self._known = known
        self._found: dict[tuple[ir.Value, Index], Real] = {}

    def level(self, node: ir.Node, index: Index) -> float:
        """Return what a node that rounds its first input makes of an element of it. Raises UnknownError."""
        return float(self._computed(node, index))

    def element(self, value: ir.Value | None, index: Index) -> Real:
        """Return an element of a value. Raises UnknownError."""
        if value is None:
            raise UnknownError
        held = self._known.get(str(value.name))
        said = exact_value(value) if held is None else None
        if said is not None:
            return said.at(index)
        array = constant(value) if held is None else held
        if array is not None:
            number = float(array[index])
            if not math.isfinite(number):
                raise UnknownError
            return Fraction(number)
        key = value, index
        if key not in self._found:
            node = value.producer()
            if node is None or len(self._found) > _MOST:
                raise UnknownError
            compute = EXACT.get(node)
            self._found[key] = self._computed(node, index) if compute is None else compute(self, node, index)
        return self._found[key]

    def _computed(self, node: ir.Node, index: Index) -> Real:
        """Return an element of what a node computes element by element."""
        if not is_by_element(node):
            raise UnknownError
        given = [place for place, value in enumerate(node.inputs) if value is not None and not is_constant(value)]
        if any(given) and not is_elementwise(node):
            # A parameter that is computed for each channel does not broadcast from the last axis on.
            raise UnknownError
        operands = {
            value: filled((1,), self.read(node, place, index)) for place in given if (value := node.inputs[place])
        }
        try:
            return apply(ExactArithmetic(index), node, operands).item()
        except (UnknownOperatorError, ArithmeticError) as error:
            raise UnknownError from error

    def read(self, node: ir.Node, position: int, index: Index) -> Real:
        """Return the element of an input that is broadcast to an index of the result."""
        value = node.inputs[position]
        if value is None or value.shape is None:
            raise UnknownError
        # A size that has a name is that of the result.
        last = index[len(index) - len(value.shape) :]
        return self.element(value, tuple(0 if size == 1 else i for size, i in zip(value.shape, last, strict=True)))


Element = Callable[[Exact, ir.Node, Index], Real]
EXACT: Interface[Element] = Interface("exact", "an element of its result in rational arithmetic")


def _shape(value: ir.Value | None) -> tuple[int, ...]:
    shape = static_shape(value)
    if shape is None:
        raise UnknownError
    return shape


def _sizes(value: ir.Value | None) -> tuple[int, ...]:
    """Return the sizes of a value, -1 for those that have a name."""
    if value is None or value.shape is None:
        raise UnknownError
    return tuple(size if isinstance(size, int) else -1 for size in value.shape)


def _image(node: ir.Node) -> tuple[int, ...]:
    """Return the sizes of an image behind batch and channels."""
    sizes = _sizes(node.inputs[0])[2:]
    if min(sizes, default=0) < 0:
        raise UnknownError
    return sizes


def _matmul(exact: Exact, node: ir.Node, index: Index) -> Real:
    a, b = _sizes(node.inputs[0]), _sizes(node.inputs[1])
    if min(len(a), len(b)) < 2 or b[-2] < 0:
        raise UnknownError

    def at(shape: tuple[int, ...], row: int, column: int) -> Index:
        batch = index[len(index) - len(shape) : -2]
        return (*(0 if size == 1 else i for size, i in zip(shape[:-2], batch, strict=True)), row, column)

    row, column = index[-2:]
    terms = (
        exact.element(node.inputs[0], at(a, row, k)) * exact.element(node.inputs[1], at(b, k, column))
        for k in range(b[-2])
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


def _conv(exact: Exact, node: ir.Node, index: Index) -> Real:
    picture, weights = _image(node), _shape(node.inputs[1])
    image, channel, *place = index
    first = channel // (weights[0] // node.attributes.get_int("group", 1)) * weights[1]
    total = exact.element(node.inputs[2], (channel,)) if len(node.inputs) > 2 and node.inputs[2] else Fraction()
    for offset, at in _window(node, weights[2:], picture, tuple(place)):
        for k in range(weights[1]):
            weight = exact.element(node.inputs[1], (channel, k, *offset))
            if weight:
                total += weight * exact.element(node.inputs[0], (image, first + k, *at))
    return total


def _average_pool(exact: Exact, node: ir.Node, index: Index) -> Real:
    kernel = list(node.attributes.get_ints("kernel_shape") or ())
    seen = _window(node, kernel, _image(node), index[2:])
    count = math.prod(kernel) if node.attributes.get_int("count_include_pad", 0) else len(seen)
    total: Any = sum((exact.element(node.inputs[0], (*index[:2], *at)) for _, at in seen), Fraction())
    return total / count


def _global_average_pool(exact: Exact, node: ir.Node, index: Index) -> Real:
    size = _image(node)
    places = itertools.product(*map(range, size))
    total: Any = sum((exact.element(node.inputs[0], (*index[:2], *at)) for at in places), Fraction())
    return total / math.prod(size)


def _max_pool(exact: Exact, node: ir.Node, index: Index) -> Real:
    kernel = list(node.attributes.get_ints("kernel_shape") or ())
    seen = _window(node, kernel, _image(node), index[2:])
    return max(exact.element(node.inputs[0], (*index[:2], *at)) for _, at in seen)


def _attribute(node: ir.Node, name: str) -> Fraction:
    return Fraction(float(np.float32(node.attributes.get_float(name, 1.0))))


def _gemm(exact: Exact, node: ir.Node, index: Index) -> Real:
    turned = [node.attributes.get_int(name, 0) for name in ("transA", "transB")]
    length = _sizes(node.inputs[1])[1 if turned[1] else 0]
    if length < 0:
        raise UnknownError
    total: Real = Fraction()
    for k in range(length):
        left, right = (index[0], k), (k, index[1])
        ends = [at[::-1] if turn else at for at, turn in zip((left, right), turned, strict=True)]
        total = total + exact.element(node.inputs[0], ends[0]) * exact.element(node.inputs[1], ends[1])
    total = total * _attribute(node, "alpha")
    if len(node.inputs) < 3 or node.inputs[2] is None:
        return total
    return total + exact.read(node, 2, index) * _attribute(node, "beta")


def _reshape(exact: Exact, node: ir.Node, index: Index) -> Real:
    after, before = _sizes(node.outputs[0]), _sizes(node.inputs[0])
    if -1 in (*after[:1], *before[:1]):
        # The batch stays as it is where the rest is of one size.
        if not before or not after or -1 in (*after[1:], *before[1:]) or math.prod(after[1:]) != math.prod(before[1:]):
            raise UnknownError
        after, before = (index[0] + 1, *after[1:]), (index[0] + 1, *before[1:])
    flat = np.ravel_multi_index(index, after) if index else 0
    return exact.element(node.inputs[0], tuple(int(i) for i in np.unravel_index(int(flat), before)))


def _transpose(exact: Exact, node: ir.Node, index: Index) -> Real:
    order = list(node.attributes.get_ints("perm") or range(len(index))[::-1])
    before = [0] * len(index)
    for place, axis in enumerate(order):
        before[axis] = index[place]
    return exact.element(node.inputs[0], tuple(before))


EXACT.attach(
    {
        "AveragePool": _average_pool,
        "Conv": _conv,
        "Flatten": _reshape,
        "Gemm": _gemm,
        "GlobalAveragePool": _global_average_pool,
        "MatMul": _matmul,
        "MaxPool": _max_pool,
        "Reshape": _reshape,
        "Squeeze": _reshape,
        "Transpose": _transpose,
        "Unsqueeze": _reshape,
    }
)
