"""Draw the values of one input for one sample, and the lengths that count the elements of another input."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import UsageError
from onnx_passes.graph.constants import constant
from onnx_passes.graph.tensor_types import integer_limits
from onnx_passes.graph.traits import traits_of
from onnx_passes.ops.facts.allowed_values import AllowedValues, annotated_grid, broadcasts, float_info, grid_of
from onnx_passes.ops.facts.inputs import moves_data
from onnx_passes.verify.samples.integers import (
    ENDS,
    any_integers,
    decisive_values,
    flat_rows,
    freedom,
    put_negative,
    put_some,
)
from onnx_passes.verify.samples.numpy_files import Array
from onnx_passes.verify.samples.sizes import Sizes, demanded, reached, shape_of


def longest(model: ir.Model, value: ir.Value, sizes: Sizes) -> int | None:
    """Return the largest length that an input may hold; None unless positions are compared with what it holds.

    Were lengths much smaller than the other inputs, all of these would count as padding, and no fault would show.
    """
    compared = any(
        traits_of(node).complement and _holds_positions(node.inputs[1 - index])
        for node, index in reached(model, value, calculated=True)
    )
    if not compared:
        return None
    others = [other for other in model.graph.inputs if other is not value and not other.is_initializer()]
    lengths = [size for other in others if other.shape is not None for size in shape_of(other, sizes)[1:]]
    return max(lengths, default=None)


def _holds_positions(value: ir.Value | None) -> bool:
    """Return whether a value is calculated from numbers counted up, and from no input."""
    todo, seen = [value], {value}
    while todo:
        each = todo.pop()
        array = constant(each)
        if array is not None:
            if array.size > 2 and np.array_equal(array.reshape(-1), np.arange(array.size)):
                return True
            continue
        node = None if each is None else each.producer()
        if node is None or node.domain != "":
            continue
        if node.op_type == "Range":
            return True
        behind = node.inputs if traits_of(node).kind == "elementwise" else ()
        behind = node.inputs[:1] if moves_data(node) else behind
        todo += [given for given in behind if given not in seen]
        seen.update(behind)
    return False


Bounds = tuple[float, float]
Kind = Literal["normal", "integers", "edges", "extra", "flat", "finite", "infinite"]
_EDGY = ("edges", "extra")
"""The kinds of samples in which integers are as large as they may be; floats are ordinary in an extra one."""


_PERIOD = 65_537
"""Larger inputs repeat what is drawn for this many elements; prime, so that rows of a tensor do not repeat."""
_MOST_ELEMENTS = 2**27
_EDGES = (-0.0, 0.5, -1e3, 1e3, 0.0, -1.5, -0.5, 1.0, -1.0, 1.5, 2.0, -2.0, 2.5, -2.5, 0.25, -0.125, 16.0, -64.0, 1e-6)
_FIRST_EDGES = 6
"""Of the edges, those that small inputs get as well."""
_NEAR, _FAR = 9, 300
"""How far integers are from zero that may be negative, and where they may be any, apart from the ends of their type."""
_WORDS = ("", "a", "b", "Hello World", "hello world", "ß", "0", "-1.5")


SPECIAL_SHARE = 0.25
"""The share of the elements of an input that are special values in a special sample."""


def special_places(size: int) -> int:
    """Return how many elements of an input hold special values in a special sample."""
    return max(1, int(size * SPECIAL_SHARE))


@dataclass(frozen=True)
class Draw:
    """What decides the values of one input in one sample."""

    model: ir.Model
    value: ir.Value
    sizes: Sizes
    kind: Kind
    number: int
    bounds: Bounds | None
    random: np.random.Generator
    place: int = 0
    """Where the input stands among the others."""

    @property
    def dtype(self) -> ir.DataType:
        """Return the element type."""
        return cast("ir.DataType", self.value.dtype)

    def array(self) -> Array:
        """Draw the values."""
        shape = shape_of(self.value, self.sizes)
        if math.prod(size for size in shape if size) > _MOST_ELEMENTS:
            raise UsageError(
                f"input '{self.value.name}' of shape {list(shape)} is too large to generate",
                hint="give its data with --inputs",
            )
        count = min(math.prod(shape), _PERIOD)
        grid = annotated_grid(self.value) or self._quantizer_grid(shape) if self.bounds is None else None
        drawn = self._values(count) if grid is None else self._on_grid(grid, count, shape)
        array = drawn.reshape(shape) if drawn.size == math.prod(shape) else np.resize(drawn, shape)
        return self._overlaid(array) if grid is None or not grid.closed else array

    def _overlaid(self, array: Array) -> Array:
        """Put special values over what was drawn, or make rows flat."""
        if not self.dtype.is_floating_point() or self.bounds is not None or not array.size:
            return array
        if self.kind == "flat":
            return self._finish(flat_rows(array, self.random))
        if self.kind in ("finite", "infinite"):
            values = self._special_values()
            pool = np.append(values[np.isfinite(values)], -0.0) if self.kind == "finite" else values[:3]
            # What does not fit into one small sample comes in the next ones, in another order for each input.
            pool = np.roll(pool, self.number + self.place)[: special_places(array.size)]
            put_some(array, self._finish(pool), self.random, share=SPECIAL_SHARE)
        return array

    def _on_grid(self, grid: AllowedValues, count: int, shape: Sequence[int]) -> Array:
        steps = self._steps(grid, count)
        scale, zero = grid.scale.reshape(()) if grid.scale.size == 1 else grid.scale, grid.zero
        zero = zero.reshape(()) if zero.size == 1 else zero
        if scale.ndim or zero.ndim:
            steps = np.resize(steps, shape)
        return self._finish((steps - zero) * scale)

    def _values(self, count: int) -> Array:
        dtype, random = self.dtype, self.random
        if dtype is ir.DataType.STRING:
            return np.array(_WORDS, dtype=object)[random.integers(len(_WORDS), size=count)]
        if dtype is ir.DataType.BOOL:
            return (np.full(count, self.number % 2) if count == 1 else random.integers(2, size=count)).astype(bool)
        if dtype in (ir.DataType.COMPLEX64, ir.DataType.COMPLEX128):
            return (random.standard_normal(count) + 1j * random.standard_normal(count)).astype(dtype.numpy())
        if dtype.is_integer():
            if self.bounds is not None:
                return self._integers(int(self.bounds[0]), int(self.bounds[1]), count).astype(dtype.numpy())
            return self._free_integers(count)
        if self.bounds is not None:
            return self._finish(_with_ends(random, random.uniform(*self.bounds, count), *self.bounds))
        indices = demanded(self.model, self.value, self.sizes, floats=True)
        if indices is not None:
            return self._finish(self._integers(*indices, count))
        return self._floats(count)

    def _floats(self, count: int) -> Array:
        if self.kind == "integers":
            return self._finish(self.random.integers(-4, 5, count).astype(np.float32))
        values = self.random.standard_normal(count, np.float64 if self.dtype is ir.DataType.DOUBLE else np.float32)
        if self.kind != "edges":
            return self._finish(values)
        edges = np.array(_EDGES)
        pool = edges[np.abs(edges) <= float(float_info(self.dtype).max)]
        # Half of the values are edges, and more where a half is not enough to have each of them once.
        edgy = min(count, max(count // 2, pool.size))
        picks = np.concatenate([pool[:_FIRST_EDGES], self.random.permutation(pool[_FIRST_EDGES:])])
        values[self.random.permutation(count)[:edgy]] = np.resize(picks, edgy)
        return self._finish(values)

    def _special_values(self) -> Array:
        info = float_info(self.dtype)
        largest, normal, smallest = float(info.max), float(info.smallest_normal), float(info.smallest_subnormal)
        return np.array([np.inf, -np.inf, np.nan, largest, -largest, normal, -normal, smallest, -smallest])

    def _finish(self, values: Array) -> Array:
        """Convert to the element type; one that holds nothing but powers of two gets these as exponents."""
        if self.dtype is ir.DataType.FLOAT8E8M0:
            values = np.exp2(np.rint(np.clip(values, -8, 8)))
        if self.dtype.is_integer():
            values = np.clip(np.rint(values), *integer_limits(self.dtype))
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            return values.astype(self.dtype.numpy(), copy=False)

    def _integers(self, low: int, high: int, count: int) -> Array:
        kind = np.uint64 if high >= 2**63 else np.int64
        drawn = self.random.integers(low, high, count, kind, endpoint=True)
        return _with_ends(self.random, drawn, low, high)

    def _free_integers(self, count: int) -> Array:
        """Draw integers that the model takes; in the sample of edge values also negative and very large ones."""
        dtype = self.dtype
        wanted = demanded(self.model, self.value, self.sizes)
        if wanted is not None:
            drawn = self._integers(*wanted, count).astype(dtype.numpy())
            if self.kind in _EDGY and dtype.is_signed():
                put_negative(self.model, self.value, drawn, wanted[1], self.random)
            return drawn
        if count == 1 and self.number % 2 and (decisive := decisive_values(self.model, self.value)):
            # Samples in turn take one way and the other.
            return np.array([decisive[self.number // 2 % len(decisive)]], dtype.numpy())
        low, high = integer_limits(dtype)
        if dtype.bitwidth <= 16:
            ends = (max(low, -8), min(high, 8)) if self.kind == "integers" else (low, high)
            return self._integers(*ends, count).astype(dtype.numpy())
        free = freedom(self.model, self.value) if self.kind != "normal" else "counts"
        length = longest(self.model, self.value, self.sizes)
        ends = (0, 3 if length is None else length)
        if free != "counts" and length is None:
            ends = (max(low, -_NEAR), _NEAR)
        drawn = self._integers(*ends, count).astype(dtype.numpy())
        if free == "any":
            chosen = _shuffled_cycle(self.random, 2, drawn.size) == 0
            pool = np.array(any_integers(dtype) if self.kind in _EDGY else range(max(low, -_FAR), _FAR), drawn.dtype)
            first = ENDS if self.kind in _EDGY else 0
            picks = np.concatenate([pool[:first], self.random.permutation(pool[first:])])
            drawn[chosen] = np.resize(picks, int(chosen.sum()))
        return drawn

    def _quantizer_grid(self, shape: Sequence[int]) -> AllowedValues | None:
        if not self.dtype.is_floating_point():
            return None
        for node, index in self.value.uses():
            grid = grid_of(node, len(shape)) if index == 0 else None
            if grid is not None and broadcasts(grid, shape):
                return grid
        return None

    def _steps(self, grid: AllowedValues, count: int) -> Array:
        """Draw positions on the grid: steps, ties between them, anything, and what lies at and beyond its ends."""
        low, high, random = grid.low, grid.high, self.random
        if grid.closed:
            return self._integers(low, high, count).astype(np.float64)
        steps = random.integers(low - 1, high + 1, count, endpoint=True).astype(np.float64)
        inside, outside = (low, high, low + 0.5, high - 0.5), (low - 0.5, high + 0.5, 2 * low - 1, 2 * high + 1)
        ends = np.array([*inside, *outside, -0.0])
        kind = _shuffled_cycle(random, 4, count)
        steps[kind == 1] += 0.5
        steps[kind == 2] += random.uniform(-0.5, 0.5, int((kind == 2).sum()))
        steps[kind == 3] = np.resize(random.permutation(ends), int((kind == 3).sum()))
        return steps


def _shuffled_cycle(random: np.random.Generator, kinds: int, count: int) -> Array:
    """Give every kind its share, in no order, however few there are to share."""
    return random.permutation((np.arange(count) + random.integers(kinds)) % kinds)


def _with_ends(random: np.random.Generator, values: Array, low: float, high: float) -> Array:
    """Let both ends of a range occur, where there is room for both."""
    if values.size > 1:
        first = int(random.integers(values.size))
        second = (first + 1 + int(random.integers(values.size - 1))) % values.size
        values[first], values[second] = low, high
    return values
