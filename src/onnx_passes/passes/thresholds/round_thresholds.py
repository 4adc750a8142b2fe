"""Round thresholds of integers to integers, and those of fixed-point numbers to their steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onnx_passes import passes
from onnx_passes.numbers.range import Range
from onnx_passes.passes.thresholds.by_range import ByRange, Rows
from onnx_passes.passes.thresholds.nodes import Thresholds, integers


@passes.verify.equality
@passes.register(tags=("thresholds", "quantized"))
class RoundThresholds(ByRange):
    """Round thresholds of integers up to integers, at most one beyond the range of the values.

    Rewrites: ``MultiThreshold(q, [[-99, 0.3, 2.5]])`` → ``MultiThreshold(q, [[-4, 1, 3]])`` for q from -4 to 3: an
              integer reaches a threshold if it reaches the next integer. Their number is kept. Thresholds of
              fixed-point numbers, such as an input that is set to ``FIXED<8,4>``, become multiples of their step.
    Refuses:  inputs that are not known to be such numbers, or that floats cannot hold.
    Exactness: bit-exact.
    """

    def rows(self, found: Thresholds, known: Range | None) -> Rows | str:
        """Round up to the next step, clipped to the range and one step beyond."""
        step = _step(known)
        within = integers(_divided(known, step), found.places)
        if isinstance(within, str):
            return within
        low, high = within
        upwards = np.where(np.isnan(found.rows), np.inf, np.ceil(found.rows / step))
        # Adding 0 turns negative zeros positive.
        rounded = np.clip(upwards, low[:, None], high[:, None] + 1) + 0
        return Rows((rounded * step).astype(np.float32), found.bias)


def _step(known: Range | None) -> float:
    """Return the power-of-two step of fixed-point numbers; 1 for other values."""
    grid = None if known is None else known.grid
    if grid is None or grid.scale.size != 1 or grid.scale.item() < 0 or grid.bias.any() or not grid.is_held():
        return 1.0
    return float(grid.scale.item())


def _divided(known: Range | None, step: float) -> Range | None:
    """Return the range divided by a step."""
    if known is None or known.grid is None or step == 1:
        return known
    grid = replace(known.grid, scale=known.grid.scale / step)
    return Range(known.low / step, known.high / step, grid)
