"""Measure the shape of a graph: depth, width and fan-out."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.analysis.statistics import GraphStatistics, statistics_of
from onnx_passes.core.base import Analysis


@passes.verify.equality
@passes.register(tags=("analyse",))
class Statistics(Analysis):
    """Measure depth, width, fan-out and fan-in of the graph, and find its longest path.

    Rewrites: nothing; finds ``GraphStatistics``: ``apply(model, "statistics")["statistics"].depth``.
    Refuses:  nothing.
    Exactness: changes nothing.
    """

    def analyze(self, model: ir.Model) -> GraphStatistics:
        """Return the statistics of the graph."""
        return statistics_of(model)
