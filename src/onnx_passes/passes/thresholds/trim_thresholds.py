"""Leave out thresholds that are always reached, or never."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.analysis.ranges.analyse import ranges_of
from onnx_passes.analysis.ranges.range import Range
from onnx_passes.core.base import Context, PassResult, Transformation
from onnx_passes.graph.names import Names
from onnx_passes.graph.wording import name_of
from onnx_passes.passes.thresholds.nodes import Thresholds, bounds, is_thresholds, level_values
from onnx_passes.passes.thresholds.writing import replace_constant


@passes.verify.equality
@passes.register(tags=("thresholds", "quantized"))
class TrimThresholds(Transformation):
    """Leave out the thresholds that no channel ever reaches, and add those to the bias that all channels always reach.

    Rewrites: ``MultiThreshold(q, [[-9, 0, 1, 7]])`` → ``MultiThreshold(q, [[0, 1]], out_bias=1)`` for q from -4 to 3.
    Refuses:  steps of different height, biases that would be rounded, and to leave no threshold at all. FINN wants as
              many thresholds as the data type of the result has steps, so that this is in no group.
    Exactness: bit-exact.
    """

    needs = ("shape-inference",)
    preserves = ("shape-inference",)
    fast_math = ("nnan",)

    def call(self, model: ir.Model) -> PassResult:
        """Run without a manager."""
        return self.run(model, Context())

    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Look at all nodes of the graph."""
        nodes = [node for node in model.graph if is_thresholds(node)]
        ranges = ranges_of(model) if nodes else {}
        names = Names.of(model.graph)
        changed = False
        for node in nodes:
            found = Thresholds.of(node)
            kept = found if isinstance(found, str) else _kept(found, ranges.get(found.x))
            if isinstance(found, str) or isinstance(kept, str):
                context.note(f"{name_of(node)} stays: {kept}")
                continue
            if kept.rows.shape != found.rows.shape:
                replace_constant(model, names, node, 1, found.shaped(kept.rows))
                node.attributes.add(ir.AttrFloat32("out_bias", kept.bias))
                changed = True
        return PassResult(model, modified=changed)


@dataclass(frozen=True)
class _Kept:
    rows: np.ndarray
    bias: float


def _kept(found: Thresholds, known: Range | None) -> _Kept | str:
    if found.weights is not None:
        return "its steps differ in height"
    if known is None:
        return "nothing is known of its input"
    low, high = bounds(known, found.places)
    rows = np.sort(found.rows, axis=1)
    amount = rows.shape[1]
    always = int((rows <= low[:, None]).sum(axis=1).min())
    never = int((~(rows <= high[:, None])).sum(axis=1).min())
    levels = found.levels()
    bias = float(levels[always])
    if not np.array_equal(level_values(found.scale, bias, amount - always), levels[always:]):
        always, bias = 0, found.bias
    if always + never >= amount:
        always, bias, never = 0, found.bias, min(never, amount - 1)
    return _Kept(rows[:, always : amount - never], bias)
