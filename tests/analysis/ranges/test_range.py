"""Ranges of whole tensors."""

from __future__ import annotations

import numpy as np

from onnx_passes.numbers.grid import Grid
from onnx_passes.numbers.range import Range


def test_what_holds_for_all_elements_does_not_depend_on_the_ranks_of_parts():
    grid = Grid(np.ones(()), np.zeros(()), np.array([[-4]]), np.array([[3]]))
    whole = Range(np.array([[-4.0]]), np.array([[3.0]]), grid).overall()
    assert whole.low.ndim == 0
    assert whole.grid is not None
    assert (int(whole.grid.low), int(whole.grid.high)) == (-4, 3)
