"""Make thresholds of integers integers."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.analysis.ranges.analyse import ranges_of
from onnx_passes.analysis.ranges.range import Range
from onnx_passes.core.base import Context, PassResult, Transformation
from onnx_passes.graph.names import Names
from onnx_passes.graph.wording import name_of
from onnx_passes.passes.thresholds.nodes import Thresholds, integers, is_thresholds
from onnx_passes.passes.thresholds.writing import replace_constant


@passes.verify.equality
@passes.register(tags=("thresholds", "quantized"))
class RoundThresholds(Transformation):
    """Round the thresholds of integers up to integers, not further than one beyond their range.

    Rewrites: ``MultiThreshold(q, [[-99, 0.3, 2.5]])`` → ``MultiThreshold(q, [[-4, 1, 3]])`` for q from -4 to 3:
              an integer reaches a threshold if it reaches the next integer. Their number stays as it is.
    Refuses:  inputs that are not known to be integers, or that floats cannot hold.
    Exactness: bit-exact.
    """

    needs = ("shape-inference",)
    preserves = ("shape-inference",)
    fast_math = ("nnan",)

    def call(self, model: ir.Model) -> PassResult:
        """Run without a manager."""
        return self.run(model, Context())

    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Round the thresholds of all nodes of the graph."""
        nodes = [node for node in model.graph if is_thresholds(node)]
        ranges = ranges_of(model) if nodes else {}
        names = Names.of(model.graph)
        changed = False
        for node in nodes:
            found = Thresholds.of(node)
            rounded = found if isinstance(found, str) else _rounded(found, ranges.get(found.x))
            if isinstance(found, str) or isinstance(rounded, str):
                context.note(f"{name_of(node)} stays: {rounded}")
            elif not np.array_equal(rounded, found.rows):
                replace_constant(model, names, node, 1, found.shaped(rounded))
                changed = True
        return PassResult(model, modified=changed)


def _rounded(found: Thresholds, known: Range | None) -> np.ndarray | str:
    within = integers(known, found.places)
    if isinstance(within, str):
        return within
    low, high = within
    upwards = np.where(np.isnan(found.rows), np.inf, np.ceil(found.rows))
    # Adding 0 leaves no zero negative.
    return (np.clip(upwards, low[:, None], high[:, None] + 1) + 0).astype(np.float32)
