"""Passes that rewrite the thresholds of a node from the range of what it counts."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.ranges.analyse import ranges_of
from onnx_passes.analysis.ranges.range import Range
from onnx_passes.core.base import Context, PassResult, Transformation
from onnx_passes.graph.names import Names
from onnx_passes.graph.wording import name_of
from onnx_passes.passes.thresholds.nodes import Thresholds, is_thresholds
from onnx_passes.passes.thresholds.writing import replace_constant


@dataclass(frozen=True)
class Rows:
    """Other thresholds for the same result, and the bias that goes with them."""

    thresholds: np.ndarray
    bias: float


class ByRange(Transformation):
    """Looks at all thresholds of a graph; a subclass says what may stand for those of one node."""

    needs = ("shape-inference",)
    preserves = ("shape-inference",)
    fast_math = ("nnan",)

    @abstractmethod
    def rows(self, found: Thresholds, known: Range | None) -> Rows | str:
        """Return other thresholds, or why there are none."""

    def call(self, model: ir.Model) -> PassResult:
        """Run without a manager."""
        return self.run(model, Context())

    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Replace the thresholds of all nodes for which there are others."""
        nodes = [node for node in model.graph if is_thresholds(node)]
        ranges = ranges_of(model) if nodes else {}
        names = Names.of(model.graph)
        changed = False
        for node in nodes:
            found = Thresholds.of(node)
            other = found if isinstance(found, str) else self.rows(found, ranges.get(found.x))
            if isinstance(found, str) or isinstance(other, str):
                context.note(f"{name_of(node)} stays: {other}")
            elif not np.array_equal(other.thresholds, found.rows):
                replace_constant(model, names, node, 1, found.shaped(other.thresholds))
                if other.bias != found.bias:
                    node.attributes.add(ir.AttrFloat32("out_bias", other.bias))
                changed = True
        return PassResult(model, modified=changed)
