"""Integer tensors beside the floats that hold the same integers."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from onnx_passes.analysis.ranges.range import Range
from onnx_passes.analysis.ranges.rounding import EXACT_IN_FLOAT
from onnx_passes.analysis.sums import Bounds
from onnx_passes.graph.constants import constant
from onnx_passes.passes.export.bench import Bench
from onnx_passes.passes.export.containers import ALL, bounds_of, container


class Workshop(Bench):
    """Knows which floats have an integer twin, and makes such twins."""

    def __init__(self, model: ir.Model, ranges: Mapping[ir.Value, Range]) -> None:
        super().__init__(model)
        self._ranges = ranges
        self._twins: dict[ir.Value, ir.Value] = {}
        self._bounds: dict[ir.Value, Bounds | None] = {}
        self._casts: dict[tuple[ir.Value, ir.DataType], ir.Value] = {}

    def bounds(self, value: ir.Value | None) -> Bounds | None:
        """Return the bounds of a float tensor that holds integers, none of which floats round."""
        if value is None or value.dtype is not ir.DataType.FLOAT:
            return None
        if value not in self._bounds:
            self._bounds[value] = self._find_bounds(value)
        return self._bounds[value]

    def _find_bounds(self, value: ir.Value) -> Bounds | None:
        held = constant(value)
        if held is not None:
            found = bounds_of(held)
        else:
            known = self._ranges.get(value)
            grid = None if known is None else known.integer_grid
            found = None if grid is None else (int(grid.low.min()), int(grid.high.max()))
        return found if found is not None and max(-found[0], found[1]) <= EXACT_IN_FLOAT else None

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
        return self.cast(self._twins[value], ir.DataType.FLOAT)

    def set_twin(self, value: ir.Value, integer: ir.Value) -> None:
        """Say which integers a value holds."""
        self._twins[value] = integer

    def discard(self) -> set[ir.Value]:
        """Forget what was built for the node at hand."""
        gone = super().discard()
        self._casts = {key: value for key, value in self._casts.items() if value not in gone}
        return gone
