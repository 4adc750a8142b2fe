"""Infer the data type of every value: the smallest that contains its range, or a named one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from onnx_passes.analysis.dataflow import Forward
from onnx_passes.datatypes import DataType, FixedPoint, IntegerType, Interval, ScaledInteger
from onnx_passes.graph.constants import constant
from onnx_passes.graph.tensor_types import datatype_of
from onnx_passes.graph.traits import is_product, traits_of
from onnx_passes.numbers import range as analysis
from onnx_passes.numbers.range import exact_up_to
from onnx_passes.ops.facts.sums import sums_within
from onnx_passes.passes.datatypes.facts import DATATYPES, Fact, fact_of_constant, fact_of_element, fact_of_input
from onnx_passes.passes.datatypes.names import name_of_moved, name_of_scaled

_SCALED_SUMS = {"Add", "Conv", "Gemm", "MatMul", "Mul", "Sub"}
_SCALED_SUM = ScaledInteger(32)
_OF_SOME: Mapping[str, tuple[int, ...]] = {
    "Clip": (0,),
    "MultiThreshold": (1,),
    "Where": (1, 2),
    **dict.fromkeys(("Pad", "Scatter", "ScatterElements", "ScatterND"), (0, 2)),
}
"""Operands with the numbers of the result, for operators with further inputs."""


class DatatypeInference(Forward[Fact]):
    """Facts about all values of a model: ``results`` of nodes, and the ``constants`` that are read.

    ``inexact`` are sums that floats may round.
    """

    def __init__(self, ranges: Mapping[ir.Value, analysis.Range], *, allow_scaledint: bool = False) -> None:
        super().__init__()
        self.results: dict[ir.Value, Fact] = {}
        self.constants: dict[ir.Value, Fact] = {}
        self.inexact: list[ir.Value] = []
        self._ranges = ranges
        self._allow_scaledint = allow_scaledint

    def source(self, value: ir.Value) -> Fact:
        """Return the fact of a constant from its numbers, and of an input from its declaration."""
        array = constant(value)
        if array is None:
            return fact_of_input(value)
        self.constants[value] = fact_of_constant(value, array)
        return self.constants[value]

    def join(self, a: Fact, b: Fact) -> Fact:
        """Return the join of two facts."""
        return a.joined(b)

    def transfer(self, node: ir.Node) -> list[Fact]:
        """Combine the named data type of each result with its range."""
        if (node.domain, node.op_type) == ("", "Constant"):
            return []
        for value in operands(node):
            self.of(value)
        found = [self._fact(node, index, value) for index, value in enumerate(node.outputs)]
        self.results.update(zip(node.outputs, found, strict=True))
        return found

    def _fact(self, node: ir.Node, index: int, value: ir.Value) -> Fact:
        numbers, name = self._numbers(node, value), self._name(node, index)
        if isinstance(name, ScaledInteger) and not self._allow_scaledint:
            name = None
        named = None if name is None else Fact.of(name)
        if numbers is None:
            return named or self._unknown(node, value)
        if named is None or (named.range is not None and numbers not in named.range):
            return Fact.between(numbers)
        return named.within(numbers)

    def _numbers(self, node: ir.Node, value: ir.Value) -> Interval | None:
        """Return the range of the integers of a value; None if they are not known to be integers."""
        known = self._ranges.get(value)
        grid = None if known is None else known.whole_grid
        if known is None or grid is None:
            return None
        if self._is_inexact(node, grid.exact):
            self.inexact.append(value)
        low, high = grid.bounds
        return Interval(int(low.min()), int(high.max()))

    def _is_inexact(self, node: ir.Node, is_exact: bool) -> bool:
        """Return whether floats may round a sum of integers or its partial sums."""
        if node.outputs[0].dtype is not None and node.outputs[0].dtype.is_integer():
            return False
        if is_product(node):
            return not sums_within(node, self._bounds, exact_up_to(node.outputs[0].dtype))
        ranges = [self._ranges.get(value) for value in node.inputs if value is not None]
        grids = [None if known is None else known.grid for known in ranges]
        return not is_exact and all(grid is not None and grid.exact for grid in grids)

    def _bounds(self, value: ir.Value | None) -> tuple[int, int] | None:
        known = None if value is None else self._ranges.get(value)
        grid = None if known is None else known.whole_grid
        return None if grid is None else (int(grid.bounds[0].min()), int(grid.bounds[1].max()))

    def _name(self, node: ir.Node, index: int) -> DataType | None:
        if (node.domain, node.op_type) == ("", "If"):
            return self.of_branches(node)[index].datatype
        rule = DATATYPES.get(node) if index == 0 else None
        scaled = name_of_scaled(node) if rule is None and index == 0 else None
        if rule is not None or scaled is not None:
            return scaled if rule is None else rule(node)
        known = [self.of(value).datatype for value in operands(node)]
        moved = name_of_moved(node, known)
        if moved is None and self._allow_scaledint and node.op_type in _SCALED_SUMS and _all_scaled(known):
            return _SCALED_SUM
        return moved

    def _unknown(self, node: ir.Node, value: ir.Value) -> Fact:
        """Return the declared type of a result of an unknown operator, else the fact of its element type."""
        declared = datatype_of(value) if node.domain and DATATYPES.get(node) is None else None
        return fact_of_element(value.dtype) if declared is None else Fact.of(declared)


def _all_scaled(known: Sequence[DataType]) -> bool:
    return all(isinstance(datatype, IntegerType | FixedPoint | ScaledInteger) for datatype in known)


def operands(node: ir.Node) -> list[ir.Value]:
    """Return the inputs whose numbers are computed with or moved, without inputs that are only compared."""
    if node.outputs and node.outputs[0].dtype is ir.DataType.BOOL:
        return []
    if node.op_type in _OF_SOME:
        chosen = [node.inputs[index] for index in _OF_SOME[node.op_type] if index < len(node.inputs)]
    elif traits_of(node).kind == "elementwise" or node.op_type == "Concat" or is_product(node):
        chosen = list(node.inputs)
    else:
        chosen = list(node.inputs[:1])
    return [value for value in chosen if value is not None]
