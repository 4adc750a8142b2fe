"""Facts about small integer tensors, element by element, through the operators that compute shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.dataflow import Forward
from onnx_passes.core.measure import count_elements
from onnx_passes.graph.arguments import argument
from onnx_passes.graph.constants import constant_tensor
from onnx_passes.graph.extents import Element, extent
from onnx_passes.graph.operators import Interface

LONGEST = 64
"""Vectors of more elements are not followed."""
TRACKED = frozenset({ir.DataType.INT32, ir.DataType.INT64, ir.DataType.BOOL})
"""Element types of which a vector can be known."""


@dataclass(frozen=True)
class Vector:
    """The elements of a tensor of rank 0 or 1."""

    elements: tuple[Element, ...]
    is_scalar: bool = False

    def numbers(self) -> list[int] | None:
        """Return the elements if all are numbers."""
        numbers = [element for element in self.elements if isinstance(element, int)]
        return numbers if len(numbers) == len(self.elements) else None


Made = Sequence[Vector | None] | Vector | None
VectorRule = Callable[["Vectors", ir.Node], Made]
VECTORS: Interface[VectorRule] = Interface(
    "vectors", "the elements of its results, from those of its inputs", "onnx_passes.passes.fold.vector_rules"
)


class Vectors(Forward["Vector | None"]):
    """Follows vectors from node to node."""

    def source(self, value: ir.Value) -> Vector | None:
        """Read the elements of a constant."""
        tensor = constant_tensor(value)
        if tensor is None or len(tensor.shape) > 1 or tensor.dtype not in TRACKED or count_elements(tensor) > LONGEST:
            return None
        array = tensor.numpy()
        return Vector(tuple(int(element) for element in array.ravel().tolist()), is_scalar=array.ndim == 0)

    def join(self, a: Vector | None, b: Vector | None) -> Vector | None:
        """Return the vector if both are equal; None otherwise."""
        return a if a == b else None

    def transfer(self, node: ir.Node) -> list[Vector | None]:
        """Apply the rule of the operator to known vectors."""
        rule = VECTORS.get(node)
        if rule is None:
            return []
        made = rule(self, node)
        results = [made] if isinstance(made, Vector) or made is None else made
        return [
            vector if vector is not None and len(vector.elements) <= LONGEST and _fits(vector, output) else None
            for output, vector in zip(node.outputs, results, strict=False)
        ]

    def get(self, value: ir.Value | None) -> Vector | None:
        """Return the known elements of a value; None if it has no vector."""
        return None if value is None else self.of(value)

    def array(self, value: ir.Value) -> np.ndarray | None:
        """Return the contents of a result, if all its elements are numbers."""
        vector = self.known.get(value)
        numbers = None if vector is None else vector.numbers()
        if vector is None or numbers is None or value.dtype is None:
            return None
        array = np.array(numbers, dtype=value.dtype.numpy())
        return array.reshape(()) if vector.is_scalar else array

    def shape(self, value: ir.Value | None) -> tuple[Element, ...] | None:
        """Return the dimensions of a value, if at least their number is known."""
        vector = None if value is None else self.known.get(value)
        if vector is not None:
            return () if vector.is_scalar else (len(vector.elements),)
        if value is None or value.shape is None:
            return None
        return tuple(map(extent, value.shape))

    def numbers(self, node: ir.Node, index: int, attribute: str = "") -> list[int] | None:
        """Return an input, or an attribute that older operators have instead, if it is known."""
        ints = node.attributes.get_ints(attribute) if attribute else None
        if ints is not None:
            return list(ints)
        vector = self.get(argument(node, index))
        return None if vector is None else vector.numbers()


def _fits(vector: Vector, output: ir.Value) -> bool:
    """Return whether a value can hold the elements: numbers that wrap around are not followed."""
    dtype = output.dtype
    if dtype is None or dtype not in TRACKED:
        return False
    if dtype is ir.DataType.BOOL:
        return True
    return all(dtype.min <= number <= dtype.max for number in vector.elements if isinstance(number, int))
