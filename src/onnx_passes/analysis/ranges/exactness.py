"""Whether a tensor holds exactly what its grid says: no float has been rounded on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.ranges.range import Range
from onnx_passes.analysis.ranges.rounding import exact_up_to, integer_limits
from onnx_passes.graph.traits import traits_of
from onnx_passes.ops.quantizing import is_quantizer

_IN_STEPS = frozenset({"BatchNormalization", "Mean"})
"""Operators that round in between, whatever their result looks like."""
_SHORT = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
"""Floats that hold too few integers for sums of them."""


def held(found: Range, dtype: ir.DataType | None) -> Range:
    """Take what comes in, or comes with the model, for exact if its type can hold it."""
    grid = found.grid
    limit = exact_up_to(ir.DataType.DOUBLE if dtype is ir.DataType.DOUBLE else None)
    return found if grid is None or not grid.is_held(limit) else Range(found.low, found.high, replace(grid, exact=True))


def judged(found: Range, node: ir.Node, ranges: Sequence[Range | None]) -> Range:
    """Tell whether the result of a node is exact: floats can hold it, and what it is computed from is exact."""
    grid = found.grid
    if grid is None or node.outputs[0].dtype in _SHORT:
        return found if grid is None else Range(found.low, found.high, replace(grid, exact=False))
    if integer_limits(node.outputs[0].dtype) is not None or _is_rounded(node):
        return held(found, node.outputs[0].dtype)
    sources = all(known is None or known.is_point or (known.grid is not None and known.grid.exact) for known in ranges)
    limit = exact_up_to(node.outputs[0].dtype)
    exact = sources and node.op_type not in _IN_STEPS and grid.is_held(limit) and _are_ends(found)
    return found if exact == grid.exact else Range(found.low, found.high, replace(grid, exact=exact))


def _is_rounded(node: ir.Node) -> bool:
    """Tell whether the result of a node is exact whatever it is given."""
    return traits_of(node).exact_grid or is_quantizer(node)


def _are_ends(found: Range) -> bool:
    """Tell whether bounds are those of the grid, with no room for rounding."""
    assert found.grid is not None
    low, high = found.grid.bounds
    return bool(np.equal(found.low, low).all() and np.equal(found.high, high).all())
