"""Range analysis: ranges of inputs, propagated to every value, and whether values are exactly on their grids."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.dataflow import Forward
from onnx_passes.core.errors import UsageError, did_you_mean
from onnx_passes.datatypes import DataType, FixedPoint, IntegerType, parse
from onnx_passes.graph.constants import constant_tensor
from onnx_passes.graph.tensor_types import datatype_of, declared_bounds
from onnx_passes.graph.traits import traits_of
from onnx_passes.numbers.grid import Grid, shrink
from onnx_passes.numbers.range import UNKNOWN, Range, exact_up_to, integer_limits, outward
from onnx_passes.ops.quantizer import is_quantizer
from onnx_passes.ops.ranges.elementwise import either
from onnx_passes.ops.ranges.quantizers import by_grid
from onnx_passes.ops.ranges.site import RANGES, Site

Known = Range | tuple[float, float] | DataType | str
"""What a user can say of an input: a range, its two ends, or the name of a data type such as ``UINT8``."""

_WIDEST = 62


def seeds(inputs: Iterable[ir.Value], given: Mapping[str, Known]) -> dict[ir.Value, Range]:
    """Return the range of each input of a graph."""
    known = {value.name or "": value for value in inputs}
    for name in given:
        if name not in known:
            hint = did_you_mean(name, known) or f"inputs: {', '.join(known)}"
            raise UsageError(f"no input is called '{name}'", hint=hint)
    return {value: settle(_seed(value, given.get(name)), value) for name, value in known.items()}


def range_of_type(datatype: DataType | None) -> Range | None:
    """Return the range of a data type of evenly spaced numbers; there is nothing to say of others."""
    if datatype is None or datatype.bitwidth > _WIDEST:
        return None
    if isinstance(datatype, IntegerType):
        return Range.integers(datatype.min, datatype.max)
    if isinstance(datatype, FixedPoint):
        step = 2.0**-datatype.fraction_bits
        low, high = float(datatype.min), float(datatype.max)
        return Range.of(low, high, Grid.of(*(np.asarray(part) for part in (step, 0.0, low / step, high / step))))
    return None


def _seed(value: ir.Value, given: Known | None) -> Range:
    declared, bounds = range_of_type(datatype_of(value)), declared_bounds(value)
    if bounds is not None:
        declared = _between(*bounds, value, declared)
    match given:
        case None:
            return declared or UNKNOWN
        case str() | DataType():
            return _of_type(parse(str(given)), value)
        case Range():
            return given
        case low, high:
            return _between(float(low), float(high), value, declared)


def _of_type(datatype: DataType, value: ir.Value) -> Range:
    found = range_of_type(datatype)
    if found is None:
        raise UsageError(
            f"'{datatype}' does not say which integers there are",
            where=value.name,
            hint="write INT8, UINT4, BIPOLAR, FIXED<8,4>, or the two ends of the range",
        )
    return found


def _between(low: float, high: float, value: ir.Value, declared: Range | None) -> Range:
    if math.isnan(low) or math.isnan(high) or low > high:
        raise UsageError(
            f"the range from {low:g} to {high:g} is empty", where=value.name, hint="give the lower end first"
        )
    if declared is None:
        return Range.of(low, high)
    least, most = max(low, float(declared.low)), min(high, float(declared.high))
    if declared.integer_grid is not None:
        least, most = math.ceil(least), math.floor(most)
    if least > most:
        raise UsageError(
            f"no value of its data type is in the range from {low:g} to {high:g}",
            where=value.name,
            hint="correct the range, or the annotation finn_datatype",
        )
    return Range.integers(least, most) if declared.integer_grid is not None else Range.of(least, most, declared.grid)


_MOST = 1 << 16
"""Bounds of more numbers than this are joined along their longest axes, unless the tensor is constant."""
_NOT_FOLLOWED = frozenset(dtype for dtype in ir.DataType if dtype.is_floating_point() and dtype.bitwidth < 16)
"""Floats of so few bits that rounding to them is no matter of the last digit."""


def settle(found: Range, value: ir.Value) -> Range:
    """Fit arrays to rank and shape, round bounds outwards, and let integer types have their limits."""
    if (
        value.dtype in _NOT_FOLLOWED
        or np.isnan(found.low).any()
        or np.isnan(found.high).any()
        or (found.low.size == 0 or found.high.size == 0)
    ):
        found = UNKNOWN
    fitted = _limited(_fitted(found, value))
    limits = integer_limits(value.dtype)
    if limits is not None:
        return _integers(fitted, limits)
    if fitted.low is fitted.high:
        low = high = shrink(fitted.low)
    else:
        low, high = outward(shrink(fitted.low), shrink(fitted.high), value.dtype)
    return Range(low, high, fitted.grid)


def _fitted(found: Range, value: ir.Value) -> Range:
    shape = value.shape
    if shape is None:
        return found.overall()
    found = found.of_rank(len(shape))
    wrong = [
        axis
        for axis, dim in enumerate(shape)
        if isinstance(dim, int) and any(array.shape[axis] not in (1, dim) for array in _arrays(found))
    ]
    return found.joined(wrong) if wrong else found


def _arrays(found: Range) -> list[np.ndarray]:
    grid = found.grid
    return [found.low, found.high] + ([] if grid is None else [grid.scale, grid.bias, grid.low, grid.high])


def _limited(found: Range) -> Range:
    grid = found.grid
    low, high = found.low, found.high
    if max(low.size, high.size) > _MOST and not found.is_point:
        low, high = _joined(low, high)
    if grid is not None and max(grid.low.size, grid.high.size) > _MOST and not grid.is_point:
        least, most = _joined(grid.low, grid.high)
        grid = Grid(grid.scale, grid.bias, least, most, grid.exact)
    return Range(low, high, grid)


def _joined(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    while max(low.size, high.size) > _MOST:
        axis = int(np.argmax(np.maximum(low.shape, high.shape)))
        low, high = low.min(axis=axis, keepdims=True), high.max(axis=axis, keepdims=True)
    return low, high


def _integers(found: Range, limits: tuple[int, int]) -> Range:
    least, most = limits
    low, high = np.ceil(found.low), np.floor(found.high)
    # Beyond its limits an integer type wraps around.
    if (low < least).any() or (high > most).any():
        rank = (1,) * low.ndim
        low, high = np.full(rank, float(least)), np.full(rank, float(most))
        return Range(low, high, Grid.integers(low, high))
    if found.integer_grid is not None:
        return Range(shrink(found.low), shrink(found.high), found.grid)
    return Range(shrink(low), shrink(high), Grid.integers(low, high))


_IN_STEPS = frozenset({"BatchNormalization", "Mean"})
"""Operators that round in between, whatever their result looks like."""
_SHORT = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
"""Floats that hold too few integers for sums of them."""


def held(found: Range, dtype: ir.DataType | None) -> Range:
    """Take what comes in, or comes with the model, for exact if its type can hold it."""
    grid = found.grid
    limit = exact_up_to(ir.DataType.DOUBLE if dtype is ir.DataType.DOUBLE else None)
    return found if grid is None or not grid.is_held(limit) else Range(found.low, found.high, replace(grid, exact=True))


def judged(found: Range, node: ir.Node, ranges: Sequence[Range | None]) -> Range:
    """Tell whether the result of a node is exact: floats can hold it, and what it is computed from is exact."""
    grid = found.grid
    if grid is None or node.outputs[0].dtype in _SHORT:
        return found if grid is None else Range(found.low, found.high, replace(grid, exact=False))
    if integer_limits(node.outputs[0].dtype) is not None or _is_rounded(node):
        return held(found, node.outputs[0].dtype)
    sources = all(known is None or known.is_point or (known.grid is not None and known.grid.exact) for known in ranges)
    limit = exact_up_to(node.outputs[0].dtype)
    exact = sources and node.op_type not in _IN_STEPS and grid.is_held(limit) and _are_ends(found)
    return found if exact == grid.exact else Range(found.low, found.high, replace(grid, exact=exact))


def _is_rounded(node: ir.Node) -> bool:
    """Tell whether the result of a node is exact whatever it is given."""
    return traits_of(node).exact_grid or is_quantizer(node)


def _are_ends(found: Range) -> bool:
    """Tell whether bounds are those of the grid, with no room for rounding."""
    assert found.grid is not None
    low, high = found.grid.bounds
    return bool(np.equal(found.low, low).all() and np.equal(found.high, high).all())


_NUMBERS = frozenset("fiub")


def ranges_of(model: ir.Model, inputs: Mapping[str, Known] | None = None) -> dict[ir.Value, Range]:
    """Return what is known of each value of the graph, and of the graphs in its nodes.

    ``inputs`` says what comes in: a ``Range``, ``(low, high)``, or a data type such as ``"UINT8"`` by the name of the
    input. Where it says nothing the annotation ``finn_datatype`` counts, then the integer type of the input.
    Shapes and types must have been inferred before; where a shape is missing less is known, and where a type is
    missing it is taken for ``float32``.
    """
    ranges = Ranges.of_inputs(model.graph, inputs)
    ranges.run(model.graph)
    return ranges.known


class Ranges(Forward[Range]):
    """What is known of values; of nodes that are added to a graph one by one, too."""

    @staticmethod
    def of_inputs(graph: ir.Graph, inputs: Mapping[str, Known] | None = None) -> Ranges:
        """Begin with what comes in."""
        ranges = Ranges()
        given = seeds(graph.inputs, inputs or {})
        ranges.known.update((value, held(known, value.dtype)) for value, known in given.items())
        return ranges

    def add(self, node: ir.Node) -> None:
        """Find out what a node yields, from what is known of its inputs."""
        self.known.update(zip(node.outputs, self.transfer(node), strict=True))

    def source(self, value: ir.Value) -> Range:
        """Return what a constant is, or the type of a value says."""
        return _of_constant(value) or settle(UNKNOWN, value)

    def join(self, a: Range, b: Range) -> Range:
        """Return what holds for either branch."""
        return either(a, b)

    def transfer(self, node: ir.Node) -> list[Range]:
        """Return what a node makes of what is known of its inputs."""
        rule = RANGES.get(node) or (by_grid if node.domain and is_quantizer(node) else None)
        ranges: Sequence[Range | None] = ()
        results: Sequence[Range | None] = ()
        if rule is not None:
            ranges = [None if value is None else self.of(value) for value in node.inputs]
            try:
                found = rule(Site(node, ranges))
                results = () if found is None else (found,) if isinstance(found, Range) else found
            except (IndexError, ValueError):
                # Shapes that contradict each other: nothing is known of what a model computes that does not run.
                results = ()
        elif (node.domain, node.op_type) == ("", "If"):
            results = self.of_branches(node)
        return [
            _of_constant(value) or judged(settle(result or UNKNOWN, value), node, ranges)
            for value, result in zip_longest(node.outputs, results[: len(node.outputs)])
        ]


def _of_constant(value: ir.Value) -> Range | None:
    tensor = constant_tensor(value)
    if tensor is None or tensor.size == 0:
        return None
    array = tensor.numpy()
    if array.dtype.kind not in _NUMBERS:
        return None
    known = Range.point(array)
    return settle(known, value) if known is UNKNOWN else held(known, value.dtype)
