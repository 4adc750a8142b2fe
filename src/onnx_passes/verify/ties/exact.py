"""Elements of a model's values in rational arithmetic, and models in which levels are given instead of chosen."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.constants import constant, is_constant
from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.operators import Interface
from onnx_passes.graph.shapes import static_shape
from onnx_passes.graph.traits import is_elementwise
from onnx_passes.numbers.arithmetic import ExactArithmetic, UnknownOperatorError, filled
from onnx_passes.numbers.enclosures import Real
from onnx_passes.ops.semantics.exact import apply, exact_value, is_by_element
from onnx_passes.ops.windows import windows_of
from onnx_passes.verify.run.execute import Executor, Sample

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


_FORCED = "//level"


def computed_values(model: ir.Model) -> dict[str, ir.Value]:
    """Return the values that nodes of the graph compute, by name."""
    return {str(value.name): value for node in model.graph for value in node.outputs}


def _declared_shape(value: ir.Value, found: tuple[int, ...]) -> ir.Shape | None:
    """Return the declared shape of a value, unless an array of it has another."""
    if value.shape is None or len(value.shape) != len(found):
        return None
    dims = list(value.shape)
    agrees = all(not isinstance(dim, int) or dim == size for dim, size in zip(dims, found, strict=True))
    return ir.Shape(dims) if agrees else None


class Forced:
    """A model run with ``levels`` given, for ``wanted`` values; ``run`` has arrays of their types."""

    def __init__(
        self,
        model: ir.Model,
        levels: Iterable[ir.Value],
        run: Sample,
        wanted: Iterable[ir.Value],
        executor: Executor,
    ) -> None:
        self._names = list(dict.fromkeys(str(value.name) for value in levels))
        self._model = copy_model(model)
        self._values = computed_values(self._model)
        for name in self._names:
            self._give(self._values[name], run[name])
        names = dict.fromkeys(str(value.name) for value in wanted)
        also = [self._values[name] for name in names if name in self._values]
        self._ready = executor.prepare(self._model, also=also, engine="onnxruntime")

    def _give(self, value: ir.Value, array: np.ndarray) -> None:
        """Let the readers of a value read an input instead, of the type of an array of a run."""
        dtype = ir.TensorType(ir.DataType.from_numpy(array.dtype))
        # Some operators are lowered by the sizes that their input is declared to have.
        fed = ir.Value(name=f"{value.name}{_FORCED}", type=dtype, shape=_declared_shape(value, array.shape))
        self._model.graph.inputs.append(fed)
        for user, index in value.uses():
            user.replace_input_with(index, fed)

    def fed(self, sample: Sample, levels: Sample) -> Sample:
        """Return a sample with the levels that are given."""
        return sample | {name + _FORCED: levels[name] for name in self._names}

    def run(self, sample: Sample, levels: Sample) -> Sample:
        """Run on a sample and levels, of which others than those given may be among."""
        return self._ready.run(self.fed(sample, levels))

    def copied(self, names: Iterable[str]) -> tuple[ir.Model, list[ir.Value]]:
        """Copy the model that is run; returns it, and its computed values of these names."""
        copied = copy_model(self._model)
        values = computed_values(copied)
        return copied, [values[name] for name in names if name in values]

    def levels_before(self, node: ir.Node) -> list[str]:
        """Name the given levels that a node is computed from, but for those behind which others are given."""
        before = names_before(self._values[str(node.outputs[0].name)])
        return [name for name in self._names if name + _FORCED in before]


def names_before(value: ir.Value) -> frozenset[str]:
    """Name all values that one is computed from."""
    found, waiting = set[ir.Value](), [value]
    while waiting:
        producer = waiting.pop().producer()
        new = [v for v in (() if producer is None else producer.inputs) if v is not None and v not in found]
        found.update(new)
        waiting.extend(new)
    return frozenset(str(each.name) for each in found)
