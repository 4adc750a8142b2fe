"""Carry what is known of numbers forward through a graph, node by node."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import onnx_ir as ir

from onnx_passes.analysis.ranges import range as analysis
from onnx_passes.core.walk import nested_graphs
from onnx_passes.datatypes import FixedPoint, IntegerType, Range, ScaledInteger
from onnx_passes.graph.tensor_types import datatype_of
from onnx_passes.passes.datatypes.facts import DATATYPES, UNKNOWN, Fact, Facts, fact_of_element

_SCALED_SUMS = {"Add", "Conv", "Gemm", "MatMul", "Mul", "Sub"}
_SCALED_SUM = ScaledInteger(32)


class Inference:
    """Facts about all values of a model; ``results`` are those of the nodes.

    ``ranges`` is what an analysis found out about the same values: where it knows less of the integers that come, or
    more, both count.
    """

    def __init__(self, ranges: Mapping[ir.Value, analysis.Range], *, allow_scaledint: bool = False) -> None:
        self.facts = Facts()
        self.results: dict[ir.Value, Fact] = {}
        self._ranges = ranges
        self._allow_scaledint = allow_scaledint

    def graph(self, graph: ir.Graph) -> None:
        """Visit the nodes in their order, those of nested graphs before the node that holds them."""
        for node in graph:
            for nested in nested_graphs(node):
                self.graph(nested)
            if (node.domain, node.op_type) != ("", "Constant"):
                self._node(node)

    def _node(self, node: ir.Node) -> None:
        for index, value in enumerate(node.outputs):
            fact = self._result(node, index)
            if fact is not None and isinstance(fact.datatype, ScaledInteger) and not self._allow_scaledint:
                fact = UNKNOWN
            found = self._unknown(node, value) if fact is None else fact
            self.results[value] = found = self._narrowed(value, found)
            self.facts.learn(value, found)

    def _narrowed(self, value: ir.Value, fact: Fact) -> Fact:
        known = self._ranges.get(value)
        grid = None if known is None else known.integer_grid
        return fact if grid is None else fact.within(Range(int(grid.low.min()), int(grid.high.max())))

    def _result(self, node: ir.Node, index: int) -> Fact | None:
        operator = (node.domain, node.op_type)
        if operator == ("", "If"):
            return self._joined_branches(node, index)
        rule = DATATYPES.get(node) if index == 0 or operator == ("", "Split") else None
        found = None if rule is None else rule(node, self.facts)
        if found is None and self._allow_scaledint and node.op_type in _SCALED_SUMS and self._all_scaled(node):
            return Fact(_SCALED_SUM)
        return found

    def _joined_branches(self, node: ir.Node, index: int) -> Fact:
        return reduce(Fact.joined, [self.facts.of(branch.outputs[index]) for branch in nested_graphs(node)])

    def _all_scaled(self, node: ir.Node) -> bool:
        known = [self.facts.of(value).datatype for value in node.inputs if value is not None]
        return all(isinstance(datatype, IntegerType | FixedPoint | ScaledInteger) for datatype in known)

    def _unknown(self, node: ir.Node, value: ir.Value) -> Fact:
        """Believe what is declared of the results of operators that nothing is known of."""
        declared = datatype_of(value) if node.domain and DATATYPES.get(node) is None else None
        return fact_of_element(value.dtype) if declared is None else Fact.of(declared)
