"""Integer thresholds in standard operators: comparisons, a table, or a search."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.sums import Bounds, size_of
from onnx_passes.ops.step_functions import Compare, Steps, count, look_up, reached, reached_by_difference, search
from onnx_passes.passes.export.integer_twins import IntegerTwins
from onnx_passes.passes.export.thresholds import StepFunction, step_function
from onnx_passes.passes.integers.containers import bounds_of, container

_FEW = 3
"""Up to this number, thresholds are compared one by one."""
_SMALL_TABLE = 1 << 12
"""Maximum size of a table of all integers in bytes, unless the thresholds take more."""


def multi_threshold(twins: IntegerTwins, node: ir.Node) -> ir.Value | str:
    """Count thresholds of integers; float inputs are compared as floats."""
    x = node.inputs[0]
    assert x is not None
    found = step_function(node)
    if isinstance(found, str):
        return found
    levels = bounds_of(found.levels)
    dtype = None if levels is None else container(levels)
    if dtype is None:
        return "32 bits do not hold its levels"
    bounds = twins.bounds(x)
    rounded = twins.rounded_twin(x) if bounds is None else None
    if rounded is not None:
        integer, bounds = rounded
        return _on_integers(twins, integer, bounds, found.with_thresholds(before_rounding(found.thresholds)), dtype)
    integer = None if bounds is None or not twins.has_twin(x) else twins.integer(x)
    if bounds is None or integer is None:
        return _on_floats(twins, x, found, dtype)
    return _on_integers(twins, integer, bounds, found, dtype)


def before_rounding(thresholds: np.ndarray) -> np.ndarray:
    """Return the least integers, as doubles, that reach the thresholds after rounding to float32."""
    given = thresholds.astype(np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        below = np.nextafter(given, np.float32(-np.inf)).astype(np.float64)
        # From halfway after the next smaller float, or from the next integer, numbers round up.
        least = np.floor((below + given) / 2)
        least = np.where(least.astype(np.float32) >= given, least, least + 1)
    return np.where(np.isfinite(given), least, given.astype(np.float64))


def _on_floats(twins: IntegerTwins, x: ir.Value, found: StepFunction, dtype: ir.DataType) -> ir.Value:
    if found.amount <= _FEW and _counts(found):
        return _compared(twins, x, found, dtype)
    return look_up(twins.op, x, _steps(found, dtype), by_lines=not twins.target.regroups)


def _on_integers(twins: IntegerTwins, x: ir.Value, bounds: Bounds, found: StepFunction, dtype: ir.DataType) -> ir.Value:
    low, high = bounds
    # Thresholds outside of the range are always or never reached.
    thresholds = np.clip(np.ceil(found.thresholds), low, high + 1).astype(np.int64)
    found = found.with_thresholds(thresholds)
    # Thresholds are within the range, so that differences need at most one more bit.
    is_exact = size_of(bounds) <= twins.target.exact or high - low >= 1 << 31
    compare = reached if is_exact else reached_by_difference
    if found.amount <= _FEW and _counts(found):
        return _compared(twins, twins.cast(x, ir.DataType.INT32), found, dtype, compare)
    rows = thresholds.reshape(-1, found.amount)
    size = high - low + 1
    if len(rows) * size * dtype.itemsize <= max(_SMALL_TABLE, rows.size * 4):
        return _tabulated(twins, x, bounds, found, dtype)
    return search(twins.op, twins.cast(x, ir.DataType.INT32), _steps(found, dtype), compare)


def _counts(found: StepFunction) -> bool:
    """Return whether each threshold is a step by one."""
    return bool((np.diff(found.levels, axis=-1) == 1).all()) and found.levels.ndim == 1


def _compared(
    twins: IntegerTwins, x: ir.Value, found: StepFunction, dtype: ir.DataType, compare: Compare = reached
) -> ir.Value:
    kind = (x.dtype or ir.DataType.FLOAT).numpy()
    columns = list(np.moveaxis(found.thresholds.astype(kind), -1, 0))
    counted = count(twins.op, x, columns, np.dtype(np.int32), compare=compare)
    first = int(found.levels[0])
    if first:
        counted = twins.op.Add(counted, np.array(first, np.int32))
    return twins.cast(counted, dtype)


def _tabulated(twins: IntegerTwins, x: ir.Value, bounds: Bounds, found: StepFunction, dtype: ir.DataType) -> ir.Value:
    """Look up the level of every integer of the range in a table."""
    steps, (low, high) = _steps(found, dtype), bounds
    size = high - low + 1
    integers = np.arange(low, high + 1)
    counts = np.stack([np.searchsorted(row, integers, side="right") for row in steps.rows])
    table = steps.of_count(counts).reshape(-1)
    index, shift = twins.cast(x, ir.DataType.INT32), steps.numbered(size) - np.int32(low)
    return twins.op.Gather(table, twins.op.Add(index, shift) if shift.any() else index)


def _steps(found: StepFunction, dtype: ir.DataType) -> Steps:
    thresholds = found.thresholds.astype(np.float32 if found.thresholds.dtype.kind == "f" else np.int32)
    return Steps(thresholds, found.levels.astype(dtype.numpy()))
