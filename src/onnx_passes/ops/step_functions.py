"""Functions that are constant between thresholds, in terms of standard operators: compared, searched or looked up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from onnx_passes.datatypes.base import EXACT_IN_FLOAT
from onnx_passes.ops.rounding import greater_or_equal
from onnx_passes.ops.windows import pad

if TYPE_CHECKING:
    from onnx_passes.graph.builder import Builder

_LARGE = 1 << 19
"""Tables may have so many elements, or four times as many as there are thresholds."""
_GREATER_OR_EQUAL = _INTEGER_BOUNDS = 12
"""The first version in which Min and Max are for integers."""
ADDED = ("float32", "float64", "int32", "int64")
"""The types in which every version adds, and all engines alike."""
_SORTED_UPWARDS = 11
_SMALL_SUMS = 14
Compare = Callable[["Builder", ir.Value, Any], ir.Value]
"""How a value is compared with a threshold that it may have reached."""


@dataclass(frozen=True)
class Steps:
    """A function that takes ``values[..., k]`` where x has reached ``k`` of the thresholds.

    Thresholds ascend along the last axis and are never NaN; the other axes broadcast against x.
    """

    thresholds: np.ndarray
    values: np.ndarray

    @classmethod
    def of(cls, thresholds: np.ndarray, values: np.ndarray) -> Steps:
        """Sort thresholds; values, by count, are for the sorted ones. None is reached that is NaN."""
        ascending = np.sort(thresholds, axis=-1)
        missing = np.isnan(ascending)
        if not missing.any():
            return cls(ascending, values)
        shape = (*thresholds.shape[:-1], values.shape[-1])
        amount = np.sum(~missing, axis=-1, keepdims=True, dtype=np.int64)
        reachable = np.minimum(np.arange(shape[-1], dtype=np.int64), amount)
        values = np.take_along_axis(np.broadcast_to(values, shape), reachable, axis=-1)
        return cls(np.where(missing, np.array(np.inf, thresholds.dtype), ascending), values)

    @property
    def places(self) -> tuple[int, ...]:
        """Return the shape of all axes but the last: there are as many functions."""
        return self.thresholds.shape[:-1]

    @cached_property
    def rows(self) -> np.ndarray:
        """Return the thresholds of each function."""
        return self.thresholds.reshape(-1, self.thresholds.shape[-1])

    @cached_property
    def distinct(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the functions and indices of thresholds: of equal ones, which are reached together, the last."""
        is_last = np.ones(self.rows.shape, bool)
        is_last[:, :-1] = self.rows[:, 1:] != self.rows[:, :-1]
        function, index = np.nonzero(is_last)
        return function, index

    @property
    def largest_table(self) -> int:
        """Return how many elements a table may have."""
        return max(_LARGE, 4 * self.rows.size)

    def of_count(self, counts: np.ndarray) -> np.ndarray:
        """Return the values of functions, one for each row, at so many reached thresholds."""
        values = np.broadcast_to(self.values, (*self.places, self.values.shape[-1])).reshape(len(self.rows), -1)
        return np.take_along_axis(values, counts, axis=1)

    def numbered(self, factor: int) -> np.ndarray:
        """Return a number for each function, in steps of the factor."""
        return (np.arange(len(self.rows), dtype=np.int32) * factor).astype(np.int32).reshape(self.places)


@dataclass(frozen=True)
class _Cells:
    """The steps of functions, parted into cells by a monotonic number of x, so that few are left to compare with.

    All thresholds of earlier cells are reached, none of later ones.
    """

    thresholds: np.ndarray
    """For each cell, ascending; filled up with a number that is no smaller. As many as a tree of comparisons has."""
    values: np.ndarray

    @property
    def rounds(self) -> int:
        return int(self.values.shape[1]).bit_length() - 1

    def levels(self) -> Iterator[np.ndarray]:
        """Yield the thresholds that each round of comparisons needs."""
        for level in range(self.rounds):
            distance = 1 << (self.rounds - level)
            yield self.thresholds[:, distance // 2 - 1 :: distance].reshape(-1)


def reached(op: Builder, x: ir.Value, threshold: Any) -> ir.Value:
    """Compare with a threshold; none is reached that is NaN."""
    if op.opset >= _GREATER_OR_EQUAL:
        return op.GreaterOrEqual(x, threshold)
    if x.dtype is not None and x.dtype.is_integer():
        return op.Not(op.Less(x, threshold))
    found = greater_or_equal(op, x, threshold)
    if isinstance(threshold, ir.Value) or np.isnan(threshold).any():
        return op.And(found, op.Not(op.IsNaN(threshold)))
    return found


def reached_by_difference(op: Builder, x: ir.Value, threshold: Any) -> ir.Value:
    """Compare integers by their difference, for engines that compare in floats: these round it, but not to zero."""
    return op.GreaterOrEqual(op.Sub(x, threshold), np.zeros((), np.int32))


def count(
    op: Builder,
    x: ir.Value,
    columns: Sequence[Any],
    kind: np.dtype[Any],
    *,
    small: bool = False,
    compare: Compare = reached,
) -> ir.Value:
    """Count, one by one, how many of the columns of thresholds x has reached.

    With ``small``, fewer than 256 are counted in the smallest type that there is, which takes half of the time.
    """
    to = ir.DataType.from_numpy(kind)
    inner = ir.DataType.UINT8 if small and op.opset >= _SMALL_SUMS else to if kind.name in ADDED else ir.DataType.INT32
    found = [op.Cast(compare(op, x, column), to=inner) for column in columns]
    total = found[0]
    for one in found[1:]:
        total = op.Add(total, one)
    return total if inner == to else op.Cast(total, to=to)


def add_up(op: Builder, x: ir.Value, columns: Sequence[Any], weights: Sequence[Any], dtype: Any) -> ir.Value:
    """Add, one by one, the weights of the columns of thresholds that x has reached."""
    total: Any = np.zeros((), dtype)
    nothing = np.zeros((), dtype)
    for column, weight in zip(columns, weights, strict=True):
        total = op.Add(op.Where(reached(op, x, column), weight, nothing), total)
    return total


def search(op: Builder, x: ir.Value, steps: Steps, compare: Compare = reached) -> ir.Value:
    """Search the place of x among the thresholds by halving: as many comparisons as the number of them has bits."""
    cells = _cells(steps, np.zeros(steps.rows.shape, np.int64), 1)
    levels = list(cells.levels())
    half = compare(op, x, levels[0].reshape(steps.places))
    first = steps.numbered(2)
    return _descend(op, x, op.Where(half, first + np.int32(1), first), levels[1:], cells.values, compare)


def can_count_by_search(op: Builder, kind: np.dtype[Any]) -> bool:
    """Return whether computed thresholds can be sorted, in the type in which they are compared."""
    return op.opset >= _SORTED_UPWARDS and kind.name in ADDED


def count_by_search(op: Builder, x: ir.Value, given: ir.Value, steps: Steps) -> ir.Value:
    """Count thresholds that are not constant: sort them, then search; as floats. ``steps`` only lends its shapes."""
    functions, amount = steps.rows.shape
    kind = steps.thresholds.dtype
    width = (1 << amount.bit_length()) - 1
    rows = op.Reshape(given, np.array([functions, amount]))
    reachable: Any = np.float32(amount)
    greatest = np.array(np.inf if kind.kind == "f" else np.iinfo(kind).max, kind)
    if kind.kind == "f":
        missing = op.IsNaN(rows)
        rows = op.Where(missing, greatest, rows)
        held = op.Cast(op.Not(missing), to=ir.DataType.FLOAT)
        reachable = op.Reshape(op.MatMul(held, np.ones((amount, 1), np.float32)), np.array(steps.places, np.int64))
    ascending = op.TopK(rows, np.array([amount]), axis=1, largest=0, _outputs=2)[0]
    filled = pad(op, ascending, (0, 0, 0, width - amount), greatest)
    place: Any = steps.numbered(1)
    rounds = amount.bit_length()
    for level in range(rounds):
        distance = 1 << (rounds - level)
        thresholds = op.Gather(filled, np.arange(distance // 2 - 1, width, distance), axis=1)
        at = op.Gather(op.Reshape(thresholds, np.array([-1])), place)
        place = op.Add(op.Add(place, place), op.Cast(reached(op, x, at), to=ir.DataType.INT32))
    found = op.Cast(op.Sub(place, steps.numbered(width + 1)), to=ir.DataType.FLOAT)
    # What is filled up, and NaN, is nothing that infinity reaches.
    return op.Min(found, reachable)


def look_up(op: Builder, x: ir.Value, steps: Steps, *, by_lines: bool = True) -> ir.Value:
    """Find the place of x by arithmetic and a table, with few comparisons or none.

    Where x or the thresholds are whole numbers, the number of x in the table is x itself, rounded down. Otherwise it
    comes from a line through the thresholds: rounded as it may be, a greater x never has a smaller number, which is
    all that matters. Where there is nothing of that kind, the place is searched. Without ``by_lines``, no result
    depends on how an engine rounds a difference times a factor.
    """
    dtype = steps.thresholds.dtype
    if dtype == np.float32:
        if np.array_equal(np.floor(steps.rows), steps.rows):
            found = _whole(op, x, steps, is_float=True)
            if found is not None:
                return found
        return _along_a_line(op, x, steps) if by_lines else search(op, x, steps)
    if dtype.kind in "iu" and dtype.itemsize <= 4 and dtype != np.uint32 and op.opset >= _INTEGER_BOUNDS:
        found = _whole(op, x, steps, is_float=False)
        if found is not None:
            return found
    return search(op, x, steps)


def _whole(op: Builder, x: ir.Value, steps: Steps, *, is_float: bool) -> ir.Value | None:
    """Look up x, rounded down, among all whole numbers around the thresholds, if these are not too many."""
    if not np.isfinite(steps.rows).all():
        return None
    least, most = int(steps.rows.min()) - 1, int(steps.rows.max())
    size = most - least + 1
    if len(steps.rows) * size > steps.largest_table:
        return None
    if max(abs(least), abs(most)) > EXACT_IN_FLOAT:
        return None
    if is_float:
        down, low, high = op.Floor(x), np.float32(least), np.float32(most)
        # Unlike Max, this makes something of NaN.
        inside = op.Min(op.Where(greater_or_equal(op, down, low), down, low), high)
        inside = op.Cast(inside, to=ir.DataType.INT32)
    else:
        whole = x if x.dtype is ir.DataType.INT32 else op.Cast(x, to=ir.DataType.INT32)
        inside = op.Min(op.Max(whole, np.int32(least)), np.int32(most))
    counts = [np.searchsorted(row, np.arange(least, most + 1), side="right") for row in steps.rows]
    index = op.Add(inside, steps.numbered(size) - np.int32(least))
    return op.Gather(steps.of_count(np.stack(counts)).reshape(-1), index)


def _along_a_line(op: Builder, x: ir.Value, steps: Steps) -> ir.Value:
    line = _best_line(steps)
    if line is None:
        return search(op, x, steps)
    size, start, slope = line
    cells = _cells(steps, _numbers(steps.rows, start, slope, size), size)
    number = op.Mul(op.Sub(x, start.reshape(steps.places)), slope.reshape(steps.places))
    zero = np.float32(0)
    number = op.Min(op.Where(greater_or_equal(op, number, zero), number, zero), np.float32(size - 1))
    cell = op.Add(op.Cast(number, to=ir.DataType.INT32), steps.numbered(size))
    return _descend(op, x, cell, cells.levels(), cells.values)


def _best_line(steps: Steps) -> tuple[int, np.ndarray, np.ndarray] | None:
    """Return the number of cells, start and slope that leave the fewest comparisons, if that saves some."""
    function, index = steps.distinct
    # The arithmetic takes about as long as two comparisons.
    fewest = int(steps.rows.shape[1]).bit_length() - 2
    best = None
    for per_threshold in (1, 4, 16):
        size = steps.rows.shape[1] * per_threshold + 3
        if len(steps.rows) * size > steps.largest_table:
            break
        start, slope = _line(steps.rows, size)
        numbers = _numbers(steps.rows, start, slope, size)
        most = int(np.bincount(function * size + numbers[function, index]).max())
        rounds = most.bit_length()
        if rounds < fewest and len(steps.rows) * size << rounds <= steps.largest_table:
            best, fewest = (size, start, slope), rounds
        if rounds <= 1:
            break
    return best


def _line(rows: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return, for each function, where its line starts and how steep it is, so that finite thresholds are on it."""
    finite = np.where(np.isfinite(rows), rows, np.nan).astype(np.float64)
    known = np.isfinite(rows).any(axis=1)
    finite[~known] = 0
    least, most = np.nanmin(finite, axis=1), np.nanmax(finite, axis=1)
    with np.errstate(all="ignore"):
        slope = ((size - 3) / (most - least)).astype(np.float32)
        slope = np.where(np.isfinite(slope) & (slope > 0), slope, np.float32(1))
        start = (least - 1.5 / slope.astype(np.float64)).astype(np.float32)
    return np.where(np.isfinite(start), start, np.float32(0)), slope


def _numbers(rows: np.ndarray, start: np.ndarray, slope: np.ndarray, size: int) -> np.ndarray:
    """Return the numbers of thresholds, computed as the nodes do for x."""
    with np.errstate(over="ignore"):
        exact = (rows - start[:, None]) * slope[:, None]
    return np.clip(exact, np.float32(0), np.float32(size - 1)).astype(np.int64)


def _cells(steps: Steps, numbers: np.ndarray, size: int) -> _Cells:
    """Part the thresholds of each function into cells by their numbers, which are below ``size``."""
    rows, functions = steps.rows, len(steps.rows)
    function, index = steps.distinct
    cell = function * size + numbers[function, index]
    starts = np.searchsorted(cell, np.arange(functions * size))
    held = np.bincount(cell, minlength=functions * size)
    width = (1 << int(held.max(initial=0)).bit_length()) - 1
    dtype = rows.dtype
    # Who reaches what is filled up has reached all before; no integer is so large that a difference overflows.
    greatest = np.inf if dtype.kind == "f" else rows.max()
    thresholds = np.full((functions * size, width), greatest, dtype)
    rank = np.arange(len(cell)) - starts[cell]
    thresholds[cell, rank] = rows[function, index]
    # The count at the k-th place of a cell: that of its k-th threshold, of its last one behind them.
    at = np.zeros((functions * size, width + 1), np.int64)
    at[cell, rank + 1] = index + 1
    at = np.maximum.accumulate(at.reshape(functions, -1), axis=1)
    return _Cells(thresholds, steps.of_count(at).reshape(-1, width + 1))


def _descend(
    op: Builder, x: ir.Value, place: ir.Value, levels: Any, values: np.ndarray, compare: Compare = reached
) -> ir.Value:
    for level in levels:
        above = op.Cast(compare(op, x, op.Gather(level, place)), to=ir.DataType.INT32)
        place = op.Add(op.Add(place, place), above)
    return op.Gather(values.reshape(-1), place)
