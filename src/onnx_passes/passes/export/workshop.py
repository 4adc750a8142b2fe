"""Integer tensors beside the floats that hold the same integers."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from onnx_passes.analysis.ranges.range import Range
from onnx_passes.analysis.sums import Bounds, size_of
from onnx_passes.graph.constants import constant
from onnx_passes.passes.export.bench import Bench
from onnx_passes.passes.export.containers import ALL, FLOATS, bounds_of, container, largest_in


class Workshop(Bench):
    """Knows which floats have an integer twin, and makes such twins."""

    def __init__(self, model: ir.Model, ranges: Mapping[ir.Value, Range]) -> None:
        super().__init__(model)
        self._ranges = ranges
        self._twins: dict[ir.Value, ir.Value] = {}
        self._bounds: dict[ir.Value, Bounds | None] = {}
        self._casts: dict[tuple[ir.Value, ir.DataType], ir.Value] = {}

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
        key = (value, dtype)
        if key not in self._casts:
            self._casts[key] = self.op.initializer(held.astype(dtype.numpy()), f"{value.name}_{dtype.name.lower()}")
        return self._casts[key]

    def cast(self, value: ir.Value, dtype: ir.DataType) -> ir.Value:
        """Return a value in another type, cast at most once."""
        if value.dtype is dtype:
            return value
        key = (value, dtype)
        if key not in self._casts:
            self._casts[key] = self.op.Cast(value, to=dtype)
        return self._casts[key]

    def as_float(self, value: ir.Value) -> ir.Value:
        """Return the floats of a value whose integers were computed."""
        return self.cast(self._twins[value], value.dtype or ir.DataType.FLOAT)

    def set_twin(self, value: ir.Value, integer: ir.Value) -> None:
        """Say which integers a value holds."""
        self._twins[value] = integer

    def discard(self) -> set[ir.Value]:
        """Forget what was built for the node at hand."""
        gone = super().discard()
        self._casts = {key: value for key, value in self._casts.items() if value not in gone}
        return gone
