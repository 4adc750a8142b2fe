"""Make thresholds of integers integers."""

from __future__ import annotations

import numpy as np

from onnx_passes import passes
from onnx_passes.analysis.ranges.range import Range
from onnx_passes.passes.thresholds.by_range import ByRange, Rows
from onnx_passes.passes.thresholds.nodes import Thresholds, integers


@passes.verify.equality
@passes.register(tags=("thresholds", "quantized"))
class RoundThresholds(ByRange):
    """Round thresholds of integers up to integers, at most one beyond the range of the values.

    Rewrites: ``MultiThreshold(q, [[-99, 0.3, 2.5]])`` → ``MultiThreshold(q, [[-4, 1, 3]])`` for q from -4 to 3:
              an integer reaches a threshold if it reaches the next integer. Their number stays as it is.
    Refuses:  inputs that are not known to be integers, or that floats cannot hold.
    Exactness: bit-exact.
    """

    def rows(self, found: Thresholds, known: Range | None) -> Rows | str:
        """Round upwards, into the range and one beyond."""
        within = integers(known, found.places)
        if isinstance(within, str):
            return within
        low, high = within
        upwards = np.where(np.isnan(found.rows), np.inf, np.ceil(found.rows))
        # Adding 0 leaves no zero negative.
        return Rows((np.clip(upwards, low[:, None], high[:, None] + 1) + 0).astype(np.float32), found.bias)
