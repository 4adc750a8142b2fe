"""What a rule sees: a node, and what is known of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.constants import constant
from onnx_passes.graph.operators import Interface
from onnx_passes.graph.shapes import rank, static_shape
from onnx_passes.numbers.range import UNKNOWN, Range, unit_of


@dataclass(frozen=True)
class Site:
    """A node with the ranges of its inputs, ``None`` for an input that is left out."""

    node: ir.Node
    ranges: Sequence[Range | None]

    def has(self, index: int) -> bool:
        """Tell whether an input is given."""
        return index < len(self.ranges) and self.ranges[index] is not None

    def __getitem__(self, index: int) -> Range:
        found = self.ranges[index] if index < len(self.ranges) else None
        return UNKNOWN if found is None else found

    def value(self, index: int) -> ir.Value | None:
        """Return an input."""
        return self.node.inputs[index] if index < len(self.node.inputs) else None

    def number(self, index: int) -> np.ndarray | None:
        """Return the single values of an input, if each element has one, as the computation sees them."""
        found = self[index]
        return found.low if found.is_point else None

    def scalar(self, index: int, default: float) -> float | None:
        """Return an input that is one number, or the default where it is left out."""
        if not self.has(index):
            return default
        number = self.number(index)
        return float(number.reshape(-1)[0]) if number is not None and number.size == 1 else None

    def integers(self, index: int) -> list[int] | None:
        """Return an input that is a list of constant integers."""
        array = constant(self.value(index))
        return None if array is None else [int(item) for item in array.reshape(-1)]

    def rank(self, index: int = 0) -> int | None:
        """Return the rank of an input."""
        return rank(self.value(index))

    def shape(self, index: int = 0) -> tuple[int, ...] | None:
        """Return the shape of an input, if it is known."""
        return static_shape(self.value(index))

    def dims(self, index: int = 0) -> list[int | str | None] | None:
        """Return the dimensions of an input, as numbers or names."""
        return dims_of(self.value(index))

    @property
    def unit(self) -> float:
        """Return the relative error of one rounding of the result."""
        return unit_of(self.node.outputs[0].dtype)

    def attr_int(self, name: str, default: int) -> int:
        """Return an attribute."""
        return self.node.attributes.get_int(name, default)

    def attr_float(self, name: str, default: float) -> float:
        """Return an attribute."""
        return self.node.attributes.get_float(name, default)

    def attr_ints(self, name: str) -> list[int] | None:
        """Return an attribute."""
        found = self.node.attributes.get_ints(name)
        return None if found is None else list(found)

    def attr_text(self, name: str, default: str) -> str:
        """Return an attribute."""
        return self.node.attributes.get_string(name, default)


RangeRule = Callable[[Site], "Range | Sequence[Range | None] | None"]
"""Finds the range of the result, or of each result; nothing where there is nothing to say."""
RANGES: Interface[RangeRule] = Interface(
    "ranges",
    "the range of its results, from those of its inputs",
    *(f"onnx_passes.ops.ranges.{name}" for name in ("convolutions", "elementwise", "movement", "normalization")),
    *(f"onnx_passes.ops.ranges.{name}" for name in ("pooling", "products", "quantizers")),
)


def dims_of(value: ir.Value | None) -> list[int | str | None] | None:
    """Return the dimensions of a value, as numbers or names."""
    if value is None or value.shape is None:
        return None
    return [dim if isinstance(dim, int) else dim.value for dim in value.shape]


def axis_of(site: Site, default: int, index: int = 0) -> int | None:
    """Return the axis that an operator works along, counted from the front."""
    return counted(site.attr_int("axis", default), site.rank(index))


def counted(axis: int, rank: int | None) -> int | None:
    """Count an axis from the front, if it exists."""
    return None if rank is None or not -rank <= axis < rank else axis % rank
