"""What operators require of the sizes of their inputs, in terms of the dynamic dimensions of a model.

Sums of two axes that meet in a product, a length that a constant index must lie within, a volume that a constant shape
must divide: each is an inequality between polynomials in the names of dimensions, in the order in which nodes run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.analysis.shapes.known_shapes import KnownShapes, Memory
from onnx_passes.analysis.shapes.symbolic_engine import infer_symbolically
from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.extents import Amount, Extent, number_of
from onnx_passes.graph.wording import name_of
from onnx_passes.ops.facts.size_requirements import Compared, Kind, SizesView, required, shape_of


@dataclass(frozen=True)
class Requirement:
    """One size compared with another: equal, equal unless one of them is 1, at least as large, or a multiple of it."""

    kind: Kind
    left: Amount
    right: Amount
    node: str = ""

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Return whether sizes of dimensions meet this; one that cannot be computed counts as met."""
        left, right = number_of(self.left, sizes), number_of(self.right, sizes)
        if left is None or right is None:
            return True
        if self.kind == "broadcast":
            return left == right or 1 in (left, right)
        if self.kind == "multiple":
            return left % right == 0 if right else left == 0
        return left == right if self.kind == "equal" else left >= right

    @property
    def symbols(self) -> frozenset[str]:
        """Return the names of the dimensions that this depends on."""
        sides = (self.left, self.right)
        return frozenset[str]().union(*(side.free_symbols() for side in sides if isinstance(side, Extent)))

    @property
    def is_open(self) -> bool:
        """Return whether this depends on any dimension, and not on sizes that are met by all."""
        if self.kind == "at least" and isinstance(self.left, Extent) and isinstance(self.right, int):
            terms = self.left.terms.items()
            # No dimension is smaller than one; what is rounded down may be zero.
            fewest = sum(factor for names, factor in terms if all(map(str.isidentifier, names)))
            return not self.left.is_never_negative or fewest < self.right
        return bool(self.symbols) and self.left != self.right

    def __str__(self) -> str:
        words = {"equal": "=", "broadcast": "=", "at least": "≥", "multiple": "is a multiple of"}
        return f"{self.left} {words[self.kind]} {self.right}"


def requirements_of(model: ir.Model, names: Mapping[tuple[str, int], str]) -> list[Requirement]:
    """Return what the nodes of the main graph require of dynamic dimensions, in the order of nodes.

    ``names`` are the names of the dynamic dimensions of inputs, by input and axis. What depends on other sizes, which
    inference could not express in these, is left out.
    """
    copy, memory, known = copy_model(model), Memory(), set(names.values())
    for value in copy.graph.inputs:
        if value.shape is not None:
            value.shape = ir.Shape([names.get((str(value.name), axis), dim) for axis, dim in enumerate(value.shape)])
    for node in copy.graph:
        for value in node.outputs:
            value.shape = None
    infer_symbolically(copy, KnownShapes(copy.graph), memory)
    found: dict[Requirement, None] = {}
    for node in copy.graph:
        for kind, left, right in _compared(SizesView(node, memory.elements)):
            if left is not None and right is not None:
                requirement = Requirement(kind, left, right, name_of(node))
                if requirement.is_open and requirement.symbols <= known:
                    found.setdefault(requirement)
    return list(found)


def _compared(view: SizesView) -> Iterator[Compared]:
    yield from required(view)
    for value in view.node.outputs:
        for size in shape_of(value) or ():
            if isinstance(size, Extent):
                yield "at least", size, 1
