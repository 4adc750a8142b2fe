"""Integer twins of floats that hold the same integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import onnx_ir as ir

from onnx_passes.graph.constants import constant
from onnx_passes.numbers.range import Range
from onnx_passes.ops.facts.sums import Bounds, size_of
from onnx_passes.passes.export.targets import Target
from onnx_passes.passes.integers.containers import ALL, container, held_integers, integers_of, largest_in
from onnx_passes.passes.integers.twins import Twins
from onnx_passes.rewrite.editor import Editor


class ConvolutionTerm(NamedTuple):
    """A convolution of an image, and its factor in a sum."""

    factor: int
    conv: ir.Node
    x: ir.Value | None
    weights: ir.Value | None


class IntegerTwins(Twins):
    """Records the integers from which floats are cast, and returns or builds the integers of a value."""

    def __init__(
        self,
        editor: Editor,
        ranges: Mapping[ir.Value, Range],
        sums: Mapping[ir.Node, Sequence[ConvolutionTerm]],
        target: Target,
    ) -> None:
        super().__init__(editor)
        self.sums = sums
        self.target = target
        self._ranges = dict(ranges)
        self._bounds: dict[ir.Value, Bounds | None] = {}
        self._now: dict[ir.Value, ir.Value] = {}

    def bounds(self, value: ir.Value | None) -> Bounds | None:
        """Return the bounds of floats that hold exact integers within 32 bits; None otherwise."""
        if value is None:
            return None
        if value not in self._bounds:
            self._bounds[value] = held_integers(value, self._ranges)
        return self._bounds[value]

    def rounded_twin(self, value: ir.Value) -> tuple[ir.Value, Bounds] | None:
        """Return 32-bit integers and their bounds if floats hold them up to rounding; None otherwise."""
        twin, found = self.twin(value), integers_of(value, self._ranges)
        if twin is None or found is None or size_of(found) > largest_in(ir.DataType.DOUBLE):
            return None
        return twin, found

    def integer(self, value: ir.Value, among: tuple[ir.DataType, ...] = ALL) -> ir.Value | None:
        """Return the integers of a value in the first type that holds them; None if there is none."""
        bounds = self.bounds(value)
        dtype = None if bounds is None else container(bounds, among)
        if dtype is None:
            return None
        held = constant(value)
        if held is None:
            return self.cast(self.twin(value) or value, dtype)
        name = f"{value.name}_{dtype.name.lower()}"
        return self.once((value, dtype), lambda: self.op.initializer(held.astype(dtype.numpy()), name))

    def cast(self, value: ir.Value, dtype: ir.DataType) -> ir.Value:
        """Return a value in another type, cast at most once."""
        return value if value.dtype is dtype else self.once((value, dtype), lambda: self.op.Cast(value, to=dtype))

    def restored(self, twin: ir.Value, old: ir.Value) -> ir.Value:
        """Cast integers back to the float type of the original value."""
        return self.op.Cast(twin, to=old.dtype or ir.DataType.FLOAT)

    def replaced(self, old: ir.Value, new: ir.Value, twin: ir.Value) -> None:
        """Record the replacement of floats by casts from integers."""
        super().replaced(old, new, twin)
        self._now[old] = new
        if old in self._ranges:
            self._ranges[new] = self._ranges[old]

    def now(self, value: ir.Value) -> ir.Value:
        """Return the current replacement of a value of the original model."""
        return self._now.get(value, value)
