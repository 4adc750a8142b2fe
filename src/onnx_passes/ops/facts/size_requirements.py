"""What operators require of the sizes of their inputs: that two are equal, or one a multiple of the other."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import onnx_ir as ir

from onnx_passes.graph.arguments import argument, integers
from onnx_passes.graph.constants import constant
from onnx_passes.graph.extents import Amount, extent, product
from onnx_passes.graph.operators import Interface
from onnx_passes.graph.traits import traits_of

Kind = Literal["equal", "broadcast", "at least", "multiple"]


@dataclass(frozen=True)
class SizesView:
    """A node whose inputs have symbolic shapes, and vectors among them symbolic elements."""

    node: ir.Node
    elements: Mapping[ir.Value, Sequence[int | ir.SymbolicDim]]

    def shape(self, index: int) -> tuple[Amount | None, ...] | None:
        """Return the sizes of an input, None for each that is not known."""
        return shape_of(argument(self.node, index))

    def vector(self, index: int) -> list[Amount | None] | None:
        """Return the elements of an input that is a vector."""
        value = argument(self.node, index)
        array = constant(value)
        if array is not None:
            return [int(item) for item in array.reshape(-1)]
        known = None if value is None else self.elements.get(value)
        return None if known is None else [item if isinstance(item, int) else extent(item) for item in known]


Compared = tuple[Kind, Amount | None, Amount | None]
SIZES: Interface[Callable[[SizesView], Iterator[Compared]]] = Interface(
    "size-requirements", "what it requires of the sizes of its inputs"
)


def shape_of(value: ir.Value | None) -> tuple[Amount | None, ...] | None:
    """Return the sizes of a value as polynomials."""
    return None if value is None or value.shape is None else tuple(map(extent, value.shape))


def required(view: SizesView) -> Iterator[Compared]:
    """Yield the sizes that a node compares; elementwise operators broadcast their inputs."""
    rule = SIZES.get(view.node)
    if rule is not None:
        yield from rule(view)
    elif traits_of(view.node).kind == "elementwise" and len(view.node.inputs) > 1:
        yield from _broadcast([view.shape(index) for index in range(len(view.node.inputs))])


def _broadcast(shapes: Sequence[Sequence[Amount | None] | None]) -> Iterator[Compared]:
    known = [shape for shape in shapes if shape is not None]
    for sizes in itertools.zip_longest(*(reversed(shape) for shape in known), fillvalue=1):
        larger = list(dict.fromkeys(size for size in sizes if size not in (1, None)))
        # A number says more than a name: what meets it is compared with it.
        larger.sort(key=lambda size: not isinstance(size, int))
        for size in larger[1:]:
            yield "broadcast", size, larger[0]


@SIZES.of("Where")
def _where(view: SizesView) -> Iterator[Compared]:
    yield from _broadcast([view.shape(index) for index in range(3)])


@SIZES.of("Expand")
def _expand(view: SizesView) -> Iterator[Compared]:
    yield from _broadcast([view.shape(0), view.vector(1)])


@SIZES.of("MatMul", "MatMulInteger")
def _matmul(view: SizesView) -> Iterator[Compared]:
    a, b = view.shape(0), view.shape(1)
    if a and b:
        yield "equal", a[-1], b[max(len(b) - 2, 0)]
        yield from _broadcast([a[:-2], b[:-2]])


@SIZES.of("Gemm")
def _gemm(view: SizesView) -> Iterator[Compared]:
    a, b = view.shape(0), view.shape(1)
    if a and b and len(a) == len(b) == 2:
        attributes = view.node.attributes
        yield "equal", a[0 if attributes.get_int("transA", 0) else 1], b[1 if attributes.get_int("transB", 0) else 0]


@SIZES.of("Concat")
def _concat(view: SizesView) -> Iterator[Compared]:
    shapes = [shape for index in range(len(view.node.inputs)) if (shape := view.shape(index)) is not None]
    axis = view.node.attributes.get_int("axis", 0)
    for shape in shapes[1:]:
        if len(shape) == len(shapes[0]):
            for place, sizes in enumerate(zip(shapes[0], shape, strict=True)):
                if place != axis % len(shape):
                    yield "equal", *sizes


@SIZES.of("Reshape")
def _reshape(view: SizesView) -> Iterator[Compared]:
    shape, target = view.shape(0), view.vector(1)
    if shape is None or target is None or view.node.attributes.get_int("allowzero", 0):
        return
    wanted = [
        (shape[place] if place < len(shape) else None) if size == 0 else size for place, size in enumerate(target)
    ]
    known = [size for size in wanted if size is not None and size != -1]
    given = [size for size in shape if size is not None]
    left = [size for size in wanted if size == -1]
    if len(known) + len(left) == len(wanted) and len(given) == len(shape):
        yield "multiple" if left else "equal", product(given), product(known)


@SIZES.of("Gather", "GatherElements")
def _gather(view: SizesView) -> Iterator[Compared]:
    shape, indices = view.shape(0), constant(argument(view.node, 1))
    axis = view.node.attributes.get_int("axis", 0)
    if shape and indices is not None and indices.size:
        yield "at least", shape[axis], max(int(indices.max()) + 1, -int(indices.min()))


@SIZES.of("Split")
def _split(view: SizesView) -> Iterator[Compared]:
    shape, sizes = view.shape(0), integers(view.node, 1, "split")
    if shape and sizes:
        yield "equal", shape[view.node.attributes.get_int("axis", 0)], sum(sizes)


@SIZES.of("Squeeze")
def _squeeze(view: SizesView) -> Iterator[Compared]:
    shape, axes = view.shape(0), integers(view.node, 1, "axes")
    for axis in axes or ():
        if shape and -len(shape) <= axis < len(shape):
            yield "equal", shape[axis], 1


@SIZES.of("Conv", "ConvInteger", "QLinearConv", "ConvTranspose")
def _convolution(view: SizesView) -> Iterator[Compared]:
    x, w = view.shape(0), view.shape(3 if view.node.op_type == "QLinearConv" else 1)
    if x and w and len(x) == len(w) > 2:
        transposed = view.node.op_type == "ConvTranspose"
        channels = w[0] if transposed or w[1] is None else w[1] * view.node.attributes.get_int("group", 1)
        yield "equal", x[1], channels
        if not transposed:
            yield from _window(view, x, w[2:])


@SIZES.of("MaxPool", "AveragePool", "LpPool")
def _pooling(view: SizesView) -> Iterator[Compared]:
    x = view.shape(0)
    if x:
        yield from _window(view, x, view.node.attributes.get_ints("kernel_shape", ()))


def _window(view: SizesView, x: Sequence[Amount | None], kernel: Sequence[Amount | None]) -> Iterator[Compared]:
    attributes, axes = view.node.attributes, len(kernel)
    if attributes.get_string("auto_pad", "NOTSET").startswith("SAME") or axes != len(x) - 2:
        return
    pads = attributes.get_ints("pads") or (0,) * 2 * axes
    dilations = attributes.get_ints("dilations") or (1,) * axes
    for axis, size in enumerate(kernel):
        if isinstance(size, int):
            yield "at least", x[axis + 2], dilations[axis] * (size - 1) + 1 - pads[axis] - pads[axis + axes]


@SIZES.of("LSTM", "GRU", "RNN")
def _recurrent(view: SizesView) -> Iterator[Compared]:
    x = view.shape(0) or ()
    batch = 0 if view.node.attributes.get_int("layout", 0) else 1
    for index in (5, 6):
        state = view.shape(index)
        if state and len(x) == len(state) == 3:
            yield "equal", state[batch], x[batch]
    lengths = view.shape(4) or ()
    if len(lengths) == 1 and len(x) == 3:
        yield "equal", lengths[0], x[batch]


@SIZES.of("Einsum")
def _einsum(view: SizesView) -> Iterator[Compared]:
    terms = view.node.attributes.get_string("equation", "").replace(" ", "").partition("->")[0].split(",")
    sizes: dict[str, Amount | None] = {}
    for index, term in enumerate(terms):
        shape = view.shape(index)
        if shape is not None and len(shape) == len(term) and term.isalpha():
            for label, size in zip(term, shape, strict=True):
                yield "broadcast", size, sizes.setdefault(label, size)
