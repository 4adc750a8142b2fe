"""Remove thresholds that are always or never reached."""

from __future__ import annotations

import numpy as np

from onnx_passes import passes
from onnx_passes.numbers.range import Range
from onnx_passes.passes.thresholds.by_range import ByRange, Rows
from onnx_passes.passes.thresholds.nodes import Thresholds, bounds, level_values


@passes.verify.equality
@passes.register(tags=("thresholds", "quantized"))
class TrimThresholds(ByRange):
    """Remove thresholds that no channel reaches, and fold thresholds that all channels always reach into the bias.

    Rewrites: ``MultiThreshold(q, [[-9, 0, 1, 7]])`` → ``MultiThreshold(q, [[0, 1]], out_bias=1)`` for q from -4 to 3.
    Refuses:  steps of different height, biases that would be rounded, and to remove all thresholds. FINN requires as
              many thresholds as the data type of the result has steps, so that this pass is in no group.
    Exactness: bit-exact.
    """

    def rows(self, found: Thresholds, known: Range | None) -> Rows | str:
        """Keep the thresholds within the range."""
        if found.weights is not None:
            return "its steps differ in height"
        if known is None:
            return "the range of its input is not known"
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
        if always + never == 0:
            return Rows(found.rows, found.bias)
        return Rows(rows[:, always : amount - never], bias)
