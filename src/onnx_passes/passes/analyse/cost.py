"""Count the cost of running a model."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.analysis.cost import ModelCost, cost_of
from onnx_passes.core.base import Analysis


@passes.verify.equality
@passes.register(tags=("analyse", "cost"))
class Cost(Analysis):
    """Count multiply-accumulates, other operations, parameters and bytes of every node, and peak memory.

    Rewrites: nothing; finds a ``ModelCost``: ``apply(model, "cost")["cost"].macs``.
    Refuses:  nothing; a node with unknown shapes is left out of the sums and named. An operator without a formula
              counts nothing and is named; calls of functions are among them, so run inline-functions first.
    Exactness: changes nothing. Amounts are exact, as formulas where dimensions are dynamic; bodies of If, Loop and
              Scan count once each.
    """

    needs = ("shape-inference",)

    def analyze(self, model: ir.Model) -> ModelCost:
        """Return the cost of the model."""
        return cost_of(model)
