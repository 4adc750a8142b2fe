"""Integer tensors beside the floats that hold the same integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import onnx_ir as ir

from onnx_passes.analysis.ranges.range import Range
from onnx_passes.analysis.sums import Bounds, size_of
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant
from onnx_passes.passes.export.containers import ALL, FLOATS, bounds_of, container, largest_in


class Term(NamedTuple):
    """A convolution of an image, and what it counts in a sum."""

    factor: int
    conv: ir.Node
    x: ir.Value | None
    weights: ir.Value | None


class IntegerTwins:
    """Knows which floats are cast from integers, and finds or builds the integers of a value with ``op``."""

    def __init__(
        self,
        op: Builder,
        ranges: Mapping[ir.Value, Range],
        sums: Mapping[ir.Node, Sequence[Term]] = MappingProxyType({}),
    ) -> None:
        self.op = op
        self.sums = sums
        self._ranges = dict(ranges)
        self._twins: dict[ir.Value, ir.Value] = {}
        self._bounds: dict[ir.Value, Bounds | None] = {}
        self._casts: dict[tuple[ir.Value, ir.DataType], ir.Value] = {}
        self._now: dict[ir.Value, ir.Value] = {}

    def bounds(self, value: ir.Value | None) -> Bounds | None:
        """Return the bounds of floats that hold integers: none of them is rounded, or beyond 32 bits."""
        if value is None or value.dtype not in FLOATS:
            return None
        if value not in self._bounds:
            self._bounds[value] = self._find_bounds(value)
        return self._bounds[value]

    def _find_bounds(self, value: ir.Value) -> Bounds | None:
        held = constant(value)
        found = self._integers(value) if held is None else bounds_of(held)
        return found if found is not None and size_of(found) <= largest_in(value.dtype) else None

    def _integers(self, value: ir.Value) -> Bounds | None:
        known = self._ranges.get(value)
        grid = None if known is None else known.integer_grid
        return None if grid is None else (int(grid.low.min()), int(grid.high.max()))

    def rounded_twin(self, value: ir.Value) -> tuple[ir.Value, Bounds] | None:
        """Return integers of 32 bits and their bounds, where floats hold them but for the last digits."""
        twin, found = self._twins.get(value), self._integers(value)
        if twin is None or found is None or size_of(found) > largest_in(ir.DataType.DOUBLE):
            return None
        return twin, found

    def has_twin(self, value: ir.Value | None) -> bool:
        """Tell whether integers were computed for a value."""
        return value in self._twins

    def integer(self, value: ir.Value, among: tuple[ir.DataType, ...] = ALL) -> ir.Value | None:
        """Return the integers of a value in the first of the types that holds them."""
        bounds = self.bounds(value)
        dtype = None if bounds is None else container(bounds, among)
        if dtype is None:
            return None
        held = constant(value)
        if held is None:
            return self.cast(self._twins.get(value, value), dtype)
        made = self._known((value, dtype))
        if made is None:
            made = self.op.initializer(held.astype(dtype.numpy()), f"{value.name}_{dtype.name.lower()}")
            self._casts[value, dtype] = made
        return made

    def cast(self, value: ir.Value, dtype: ir.DataType) -> ir.Value:
        """Return a value in another type, cast at most once."""
        if value.dtype is dtype:
            return value
        made = self._known((value, dtype))
        if made is None:
            made = self._casts[value, dtype] = self.op.Cast(value, to=dtype)
        return made

    def _known(self, key: tuple[ir.Value, ir.DataType]) -> ir.Value | None:
        """Return what was cast before, unless it is no longer in the model."""
        made = self._casts.get(key)
        here = made is not None and (
            made.graph is not None or made in self.op.initializers or made.producer() in self.op.nodes
        )
        return made if here else None

    def as_float(self, integer: ir.Value, old: ir.Value) -> ir.Value:
        """Return integers as the floats that an old value is."""
        return self.op.Cast(integer, to=old.dtype or ir.DataType.FLOAT)

    def replaced(self, old: ir.Value, new: ir.Value, integer: ir.Value) -> None:
        """Note that floats are cast from integers now."""
        self._now[old] = new
        self._twins[new] = integer
        if old in self._ranges:
            self._ranges[new] = self._ranges[old]

    def now(self, value: ir.Value) -> ir.Value:
        """Return what stands for a value of the original model."""
        return self._now.get(value, value)
